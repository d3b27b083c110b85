#!/usr/bin/env python3
"""usage: optionclasses.py TABLE OPTIONS HEADER...: the prefix of each option is that of a class, which sets and gets it.

TABLE is options.tsv; OPTIONS the file that `renga options` writes; the headers are those of the library. Options that end with _view
show an object; what they do is RengaClassView.
"""
import re
import sys


def read_table(path):
    rows = {"prefix": {}, "short": {}, "program": {}, "option": {}}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                kind, name, *rest = line.rstrip("\n").split("\t")
                if name in rows[kind]:
                    raise SystemExit(f"{path}: {kind} {name} stands twice")
                rows[kind][name] = rest
    return rows


def is_program(name, rows):
    known = rows["program"]
    return name in known or (name.split("_")[0] in known and name.split("_")[0] not in rows["prefix"])


def classes_of(name, rows):
    prefix = rows["short"][name][0] if name in rows["short"] else name.split("_")[0]
    return rows["prefix"].get(prefix, [""])[0].split()


def problem_of(name, rows, functions):
    """What is wrong with an option, or None."""
    classes = classes_of(name, rows)
    if not classes:
        return "its prefix is that of no class"
    given = rows["option"].get(name)
    if given and given[0] == "-":
        return None if len(given) > 1 else "the table says no reason"
    if given:
        getter = given[1] if len(given) > 1 else "Get".join(given[0].rsplit("Set", 1))
        lacks = [f for f in (given[0], getter) if f not in functions]
        return f"there is no {lacks[0]}" if lacks else None
    if name.endswith("_view"):
        return None
    rest = "".join(word.capitalize() for word in name.split("_")[1:])
    if any({f"{c}Set{rest}", f"{c}Get{rest}"} <= functions for c in classes):
        return None
    return f"there is no {classes[0]}Set{rest} with a getter"


def main():
    rows = read_table(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        names = re.findall(r"^#-(\w+)", file.read(), re.M)
    functions = set()
    for header in sys.argv[3:]:
        with open(header, encoding="utf-8") as file:
            functions |= set(re.findall(r"\b(Renga\w+)\(", file.read()))
    bad = [f"-{n}: {p}" for n in names if not is_program(n, rows) for p in [problem_of(n, rows, functions)] if p]
    void = [f"{kind} {n}: there is no such option" for kind in ("short", "option") for n in rows[kind] if n not in names]
    both = sorted(f for f in functions if f.startswith("RengaPipelineSet") and f.replace("Pipeline", "Settings", 1) in functions
                  and f not in ("RengaPipelineSetFromOptions",))
    for line in bad + void + [f"{f} sets what {f.replace('Pipeline', 'Settings', 1)} sets" for f in both]:
        print(line)
    sys.exit(1 if bad or void or both or len(names) < 100 else 0)


if __name__ == "__main__":
    main()
