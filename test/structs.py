#!/usr/bin/env python3
"""Structs of the library have at most 40 members, those of structs inside them counted too. Those that have more stand in
test/structs.tsv (name, members), which may only shrink: none may grow, and who is small enough leaves it."""

import os
import re
import sys

MOST = 40
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def plain(text):
    """The text without comments, strings and lines of the preprocessor."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)


def body_end(text, start):
    """The place after the brace that closes the one before start."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[start], 0)
        start += 1
    return start


def structs(text):
    """Names and bodies of the structs and unions that stand outside of functions and of others."""
    for match in re.finditer(r"^(?:typedef )?(?:struct|union)\s*(\w*)\s*\{", text, re.M):
        end = body_end(text, match.end())
        after = re.match(r"\s*(\w*)", text[end:]).group(1)
        name = after if text[match.start():].startswith("typedef") and after else match.group(1)
        if name:
            yield name, match.group(1), text[match.end():end - 1]


def declarations(body):
    """The declarations of a body: text, and the body of the struct that is defined in it, if any."""
    start = place = 0
    inner = None
    while place < len(body):
        if body[place] == "{":
            end = body_end(body, place + 1)
            inner = body[place + 1:end - 1]
            place = end
        elif body[place] == ";":
            yield re.sub(r"\{.*\}", " ", body[start:place], flags=re.S), inner
            start, inner = place + 1, None
            place += 1
        else:
            place += 1


def members(body, known, inside=()):
    count = 0
    for text, inner in declarations(body):
        text = re.sub(r"\[[^\]]*\]", "", text)
        if inner is not None and not re.match(r"\s*enum\b", text):
            count += members(inner, known, inside)
        elif "(" in text:
            count += 1
        else:
            first, *more = text.split(",")
            words = re.findall(r"\w+|\*", first)
            kinds = [word for word in words[:-1] if word in known and word not in inside]
            each = members(known[kinds[0]], known, inside + (kinds[0],)) if kinds else 1
            for declarator in [" ".join(words)] + more:
                count += 1 if "*" in declarator else each
    return count


def main():
    known, places, aliases = {}, {}, {}
    for folder in "include", "src":
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if not name.endswith((".h", ".c")):
                    continue
                path = os.path.join(where, name)
                with open(path, encoding="utf-8") as file:
                    text = plain(file.read())
                    aliases.update((name, tag) for tag, name in re.findall(r"^typedef struct (\w+) (\w+);", text, re.M))
                    for found, tag, body in structs(text):
                        for key in {found, tag} - {""}:
                            known[key] = body
                        places[found] = os.path.relpath(path, ROOT)
    known.update((name, known[tag]) for name, tag in aliases.items() if tag in known)
    with open(os.path.join(ROOT, "test/structs.tsv"), encoding="utf-8") as file:
        listed = {name: int(number) for name, number in (line.split() for line in file if line.strip() and not line.startswith("#"))}
    bad = False
    for name, place in sorted(places.items()):
        number = members(known[name], known, (name,))
        if "-list" in sys.argv and number > MOST:
            print(f"{name}\t{number}")
        if number > listed.get(name, MOST):
            bad = True
            print(f"{place}: struct {name} has {number} members, {listed.get(name, MOST)} at most")
        elif name in listed and number <= MOST:
            bad = True
            print(f"test/structs.tsv: {name} has {number} members: take it out of the list")
    for name in sorted(set(listed) - set(places)):
        bad = True
        print(f"test/structs.tsv: there is no struct {name}")
    sys.exit(1 if bad and "-list" not in sys.argv else 0)


main()
