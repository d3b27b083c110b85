"""The commands of a page of the book, as a script of bash: all blocks that are marked sh, in their order.

Programs and files whose block has a name (c train.c) are written; what is marked "sh fails" must not succeed; Python that is
marked "python run" runs where its modules are.

usage: commands.py PAGE.md
"""
import importlib.util
import re
import shlex
import sys

sys.dont_write_bytecode = True
from markdown import Page

COMMANDS = {"sh", "bash"}


def importable(text):
    names = {name.strip().split(".")[0] for line in re.findall(r"^(?:import|from) ([\w., ]+?)(?: import .*| as .*)?$", text, re.M)
             for name in re.split(",| as \\w+", line) if name.strip()}
    return all(importlib.util.find_spec(name) for name in names)


def script(block):
    head = f"echo '== {block.page}:{block.line}'\n"
    if block.info == ["sh", "fails"]:
        return head + f"if ({block.text}); then echo 'this succeeds, and should fail'; exit 1; fi\n"
    if block.language in COMMANDS:
        return head + block.text
    if block.info == ["python", "run"]:
        return head + f"{shlex.quote(sys.executable)} - <<'PYTHON_PROGRAM'\n{block.text}PYTHON_PROGRAM\n" if importable(block.text) else None
    if len(block.info) == 2:
        return f"cat >{shlex.quote(block.info[1])} <<'END_OF_FILE'\n{block.text}END_OF_FILE\n"
    return None


def main():
    page = Page(sys.argv[1])
    print("set -eo pipefail")
    for block in page.blocks:
        text = script(block)
        if text:
            print(text)


if __name__ == "__main__":
    main()
