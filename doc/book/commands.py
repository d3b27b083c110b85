"""The commands of a page of the book, as a script of bash: all blocks that are marked sh, in their order.

Programs and files whose block has a name (c train.c) are written; what is marked "sh fails" must not succeed; Python that is
marked "python run" runs where its modules are, and a line says where they are not.

usage: commands.py PAGE.md
"""
import importlib.metadata
import importlib.util
import re
import shlex
import sys

sys.dont_write_bytecode = True
from markdown import Page

COMMANDS = {"sh", "bash"}


def is_here(name):
    """A folder of that name, without a module in it, is none."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def missing(text):
    """What this Python lacks for the program, or nothing. Modules of torch are exported by torch 2.9 with onnxscript."""
    lists = re.findall(r"^(?:import (.+)|from (\S+) import .*)$", text, re.M)
    names = {name.split()[0].split(".")[0] for one, other in lists for name in (one or other).split(",")}
    exports = "torch" in names and ("renga" in names or "onnx.export" in text)
    lacking = sorted(name for name in names | ({"onnxscript"} if exports else set()) if not is_here(name))
    if exports and not lacking and [int(n) for n in importlib.metadata.version("torch").split(".")[:2]] < [2, 9]:
        lacking = ["torch 2.9"]
    return ", ".join(lacking)


def script(block):
    head = f"echo '== {block.page}:{block.line}'\n"
    if block.info == ["sh", "fails"]:
        return head + f"if ({block.text}); then echo 'this succeeds, and should fail'; exit 1; fi\n"
    if block.language in COMMANDS and block.text.startswith("#!"):
        return head + f"(\n{block.text})\n"
    if block.language in COMMANDS:
        return head + block.text
    if block.info == ["python", "run"]:
        lacking = missing(block.text)
        if lacking:
            return f"echo '-- {block.page}:{block.line} is not run: no {lacking} here'\n"
        return head + f"{shlex.quote(sys.executable)} - <<'PYTHON_PROGRAM'\n{block.text}PYTHON_PROGRAM\n"
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
