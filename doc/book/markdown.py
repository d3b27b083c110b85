"""What the pages say, for those who check it: blocks of code, links, headings, names in code."""
import pathlib
import re


class Block:
    """A fenced or indented block of code of a page."""

    def __init__(self, page, line, info):
        self.page, self.line, self.info, self.lines = page, line, info.split(), []

    @property
    def language(self):
        return self.info[0] if self.info else ""

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


class Page:
    def __init__(self, path):
        self.path, self.blocks, self.prose, self.headings = pathlib.Path(path), [], [], []
        self.read()

    def read(self):
        fence, block = None, None
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            opens = re.match(r"^(\s*)(`{3,})(.*)$", line)
            if fence:
                if opens and opens[2] == fence and not opens[3].strip():
                    fence = None
                else:
                    block.lines.append(line)
            elif opens:
                fence, block = opens[2], Block(self.path.name, number, opens[3])
                self.blocks.append(block)
            elif line.startswith("    ") and (not self.prose or not self.prose[-1][1].strip()
                                              or self.prose[-1][1].startswith("    ")):
                self.prose.append((number, line))
                self.indented(number, line)
            else:
                self.prose.append((number, line))
                if line.startswith("#"):
                    self.headings.append(line.lstrip("#").strip())

    def indented(self, number, line):
        last = self.blocks[-1] if self.blocks else None
        if not last or last.info or last.line + len(last.lines) != number:
            last = Block(self.path.name, number, "")
            self.blocks.append(last)
        last.lines.append(line[4:])

    def anchors(self):
        """As GitHub and Sphinx make them of headings."""
        text = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings)
        named = re.findall(r"^\(([\w-]+)\)=$", "\n".join(line for _, line in self.prose), re.M)
        return set(text) | set(named)

    def links(self):
        for number, line in self.prose:
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", line)):
                yield number, target

    def code(self):
        """Words in code, and all lines of blocks but those that show what is printed, or what fails."""
        for number, line in self.prose:
            for word in re.findall(r"`([^`]+)`", line):
                yield number, word
        for block in self.blocks:
            if block.language == "text" or "fails" in block.info:
                continue
            for i, line in enumerate(block.lines):
                yield block.line + i + 1, line


def pages_of(source):
    """All pages of the book that people wrote, and those beside it that it shares facts with."""
    source = pathlib.Path(source)
    paths = sorted((source / "doc").glob("*.md"))
    return [Page(path) for path in paths + [source / "README.md", source / "examples" / "README.md"]]
