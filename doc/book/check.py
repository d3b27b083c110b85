"""Checks what the pages of the book name: links lead somewhere, options and functions are there, commands are run by a test.

usage: check.py SOURCE RENGA
"""
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from markdown import pages_of
from reference import COMMANDS, read_names

GENERATED = {"options.md", "functions.md", "operators.md"}
LAUNCH = re.compile(r"^\s*(?:\$ )?(?!renga run: )(?:renga|mpiexec|srun|mpirun|mpi\w+\.mpich|cc|c\+\+|python3?|pip|cmake) [a-z-]")
RUN = ("sh", "bash")
# Options of programs that are not renga: of examples, tutorials, measurements, launchers and compilers.
OTHERS = re.compile(r"^(?:bench|finetune|surrogate|sweep)_")


def known_options(renga):
    known = set()
    for command in COMMANDS:
        text = subprocess.run([renga, command, "-help"], capture_output=True, text=True, check=True).stdout
        known |= set(re.findall(r"^  -([a-z0-9_]+) ", text, re.M))
    return known


def machine_options(source):
    """Machine files have options of their own."""
    text = "".join(path.read_text() for path in (source / "share" / "renga" / "machines").iterdir())
    return set(re.findall(r"^-([a-z0-9_]+) ", text, re.M))


def known_names(source):
    """All words of the headers, of the public ones and of those inside."""
    words = set()
    for folder in ("include", "src"):
        for header in (source / folder).rglob("*.h"):
            words |= set(re.findall(r"\bRenga\w+", header.read_text()))
    return words


def check_links(page, pages):
    """pages: by name. A link leads to a page and a heading of it, or to a file of the tree."""
    for number, target in page.links():
        if re.match(r"^[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = page.path.parent / name if name else page.path
        if path.name in GENERATED or path.name.startswith(("picture-", "functions-")):
            continue
        if not path.exists():
            yield number, f"the link {target} leads nowhere"
        elif page.path.parent.name == "doc" and path.suffix == ".md" and path.parent != page.path.parent:
            yield number, f"the book has no page {name}"
        elif anchor and path.name in pages and anchor not in pages[path.name].anchors():
            yield number, f"{path.name} has no heading #{anchor}"


def check_options(page, known):
    for number, text in page.code():
        for name in re.findall(r"(?<![\w.\-/=])-([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b(?!_)", text):
            if name not in known and not OTHERS.match(name):
                yield number, f"there is no option -{name}"
        if LAUNCH.match(text) and "renga" in text:
            command = re.search(r"\brenga (\w+) (.*)", text)
            for name in re.findall(r"(?:^|\s)-([a-z]{4,})\b", command[2] if command else ""):
                if name not in known and name not in ("help", "version"):
                    yield number, f"renga has no option -{name}"


def check_names(page, names):
    for number, text in page.code():
        for name, more in re.findall(r"\b(Renga[A-Z]\w*)(…|\.\.\.)?", text):
            there = any(other.startswith(name) for other in names) if more else name in names
            if not there:
                yield number, f"no header has {name}"


def stands_in(lines, path):
    """Are these all lines of a part of the file, but for how far they are indented and for empty ones?"""
    wanted, there = ([line.strip() for line in text if line.strip()] for text in (lines, path.read_text().splitlines()))
    first = (at for at, line in enumerate(there) if line == wanted[0])
    return any(there[at:at + len(wanted)] == wanted for at in first)


def check_program(source, page, block):
    """A program is run, or is written to a file that a later command of the page uses, or is a part of a file of the tree."""
    info = block.info
    if info == ["python", "run"]:
        return None
    if len(info) == 3 and info[1] == "of":
        path = source / info[2]
        parts = "\n".join(block.lines).split("\n\n")
        return None if path.exists() and all(stands_in(part.splitlines(), path) for part in parts) else f"{info[2]} has no such lines"
    if len(info) == 2:
        later = [other for other in page.blocks if other.line > block.line and other.language in RUN]
        return None if any(info[1] in other.text for other in later) else f"no command of the page uses {info[1]}"
    return f"a program that no test runs: mark its block as {info[0]} run, or as {info[0]} of a FILE that is tested"


def check_blocks(source, page):
    for block in page.blocks:
        if block.language not in RUN and any(LAUNCH.match(line) for line in block.lines):
            yield block.line, "a command that no test runs: mark its block as sh"
        if block.language not in (*RUN, "", "text") and not block.language.startswith("{"):
            complaint = check_program(source, page, block)
            if complaint:
                yield block.line, complaint


def main():
    source, renga = pathlib.Path(sys.argv[1]), sys.argv[2]
    all_pages = pages_of(source)
    pages, names = {page.path.name: page for page in all_pages}, known_names(source)
    aliases = {n[2:-1] for names in read_names().values() for n in names["false"]}
    options = known_options(renga) | machine_options(source) | aliases
    wrong = 0
    for page in all_pages:
        complaints = [*check_links(page, pages), *check_options(page, options), *check_names(page, names), *check_blocks(source, page)]
        for number, text in complaints:
            print(f"{page.path.relative_to(source)}:{number}: {text}")
        wrong += len(complaints)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
