"""The field's words, short sentences and short help: what README.md, doc/, pages beside the source, renga -help, messages and
manual pages say.

usage: words.py SOURCE RENGA [words|sentences|help|readme|items]
Words of test/app/words/words.tsv stand nowhere in them; of a page's sentences 99 in 100 have at most 35 words; a line of help is one
sentence of at most 14 words; README.md has at most 70 lines, and its sentences a median of at most 20 words. Of manual pages an item under
Input or Output begins with a noun, and a number has its range.
"""
import pathlib
import re
import statistics
import sys

sys.dont_write_bytecode = True
LONGEST_SENTENCE, LONGEST_HELP, PERCENT = 35, 14, 99
README_LINES, README_MEDIAN = 70, 20
# Of items of manual pages: words that begin no sentence, types that are numbers, words of a range.
FRAGMENT = re.compile(r"(of|as|how|whose|which|see|in|on|by|for|that|from|at|with|to|where|what|lent|also|and|or|now)\b", re.I)
NUMBER = re.compile(r"(const )?(int|int64_t|size_t|uint32_t|uint64_t|float|double)( \*+)?$")
RANGE = re.compile(r"\d|\bat (least|most)\b|\bany\b|\babove\b|\bbelow\b|\bless than\b|\bthe most\b|RENGA_|NULL|"
                   r"\bthe (number|step|loss|share|same|value|rows)|\[\w+\]", re.I)
OTHER_PAGES = "CONTRIBUTING.md", "examples/README.md", "packaging/README.md", "test/cuda/README.md"


def pages(source):
    """The last one is a manual page."""
    others = [path for name in OTHER_PAGES if (path := source / name).exists()]
    return [*sorted((source / "doc").glob("*.md")), *others, source / "README.md", source / "doc" / "renga.1"]


def forbidden(source):
    rows = (line.split("\t") for line in (source / "test/app/words/words.tsv").read_text().splitlines() if not line.startswith("#"))
    return [(re.compile(re.sub(r" (?!\))", r"\\s+", pattern), re.I), term) for pattern, term in rows]


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def literals(text):
    """String literals of a C file, those that stand side by side as one: line, text."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', lambda m: m[0] if m[0][0] == '"' else "\n" * m[0].count("\n"), text, flags=re.S)
    for group in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRId64|PRIu64)?\s*"(?:[^"\\\n]|\\.)*")*', text):
        yield line_of(text, group.start()), "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', group[0]))


def manual(text):
    """Comments that manual pages are made of: line, text."""
    for comment in re.finditer(r"/\*@(.*?)@\*/", text, re.S):
        yield line_of(text, comment.start()), comment[1]


def comments(text):
    for comment in re.finditer(r"/\*(.*?)\*/", text, re.S):
        yield line_of(text, comment.start()), comment[1]


def said(source):
    """All that is checked for words: path, line, text."""
    for page in pages(source):
        # Inline code is looked at as a word that fits nothing, so that files' own words may be named.
        yield page, 1, re.sub(r"`[^`\n]+`", lambda m: "`" * len(m[0]), page.read_text()) if page.suffix == ".md" else page.read_text()
    for path in sorted((source / "src").rglob("*.[ch]")):
        text = path.read_text()
        for line, part in [*literals(text), *manual(text)]:
            yield path, line, part
    for path in sorted((source / "include").glob("renga*.h")):
        for line, part in comments(path.read_text()):
            yield path, line, part


def check_words(source, renga):
    table = forbidden(source)
    for path, first, text in said(source):
        for pattern, term in table:
            for match in pattern.finditer(text):
                found = " ".join(match[0].split())
                yield f'{path.relative_to(source)}:{first + line_of(text, match.start()) - 1}: "{found}": {term}'


def sentences(text):
    """Sentences of a page's prose: line, words. Tables, headings, code and listings are left out; an item ends a sentence."""
    text = re.sub(r"^(```+).*?^\1\s*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.S | re.M)
    place = 1
    for block in re.split(r"(\n\s*\n)", text):
        lines = [] if re.match(r"\s{4,}\S", block) else block.split("\n")
        number, part = place, []
        for line in [*lines, "* "]:
            if re.match(r"\s*(\*|-|\d+\.|\|.*|#.*|:|!\[.*|\([\w-]+\)=$)(\s|$)", line) or line.startswith("|"):
                yield from split(" ".join(part), number)
                part, number = [], place + (lines.index(line) if line in lines else 0)
                line = "" if re.match(r"\s*(\||#|!\[)", line) else re.sub(r"^\s*(\*|-|\d+\.|:)\s", "", line)
            part.append(line)
        place += block.count("\n")


def split(text, line):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    for sentence in re.split(r"(?<=[.!?])\**\)?\s+(?=[*\[(\"A-Z0-9c−]|code)", text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if words:
            yield line, len(words), sentence


def check_sentences(source, renga):
    for page in pages(source)[:-1]:
        found = sorted(sentences(page.read_text()), key=lambda row: row[1])
        allowed = len(found) - -(-len(found) * PERCENT // 100)
        for line, words, sentence in [row for row in found if row[1] > LONGEST_SENTENCE][:-allowed or None]:
            yield f"{page.relative_to(source)}:{line}: {words} words: {sentence[:100]}..."


def check_help(source, renga):
    sys.path.insert(0, str(source / "doc" / "book"))
    import reference
    options = reference.read_options(renga)
    for name, option in options.items():
        words = option.text.split()
        if len(words) > LONGEST_HELP or re.search(r"\w\. ", option.text):
            yield f"-{name}: {len(words)} words: {option.text}"
    for name in reference.read_details():
        if name not in options:
            yield f"doc/book/details.txt: there is no option -{name}"


def items(path):
    """Items under Input and Output of the manual pages in a C file: line, function, item, its C type, text."""
    text = path.read_text()
    for page in re.finditer(r"/\*@\s*(Renga\w+) - (.*?)@\*/\s*([^{;]*?\))\s*\{", text, re.S):
        for section in re.finditer(r"\n\s*(?:Input|Output):\n(.*?)(?=\n\s*\n|\Z)", page[2], re.S):
            for item in re.finditer(r"^\s*\. ([\w, ]+?) - (.*?)(?=^\s*\. |\Z)", section[1], re.S | re.M):
                kind = re.search(rf"[(,]\s*([^(,]*?)\b{item[1].rpartition(' ')[2]}\b", page[3])
                place = page.start(2) + section.start(1) + item.start(1)
                yield line_of(text, place), page[1], item[1], kind[1].strip() if kind else "", " ".join(item[2].split())


def check_items(source, renga):
    """An item says what it is, begins with a noun, has short sentences, and of a number says of what and in which range."""
    for path in sorted((source / "src").rglob("*.c")):
        for line, function, name, kind, text in items(path):
            where = f"{path.relative_to(source)}:{line}: {function}: {name}"
            if FRAGMENT.match(text):
                yield f"{where}: begins as no sentence does: {text[:60]}"
            if NUMBER.match(kind) and not RANGE.search(text):
                yield f"{where}: a number without its range: {text[:60]}"
            if max(len(part.split()) for part in re.split(r"[.;:](?:\s|$)", text)) > LONGEST_SENTENCE:
                yield f"{where}: a sentence of more than {LONGEST_SENTENCE} words: {text[:60]}"


def check_readme(source, renga):
    text = (source / "README.md").read_text()
    lines, median = len(text.splitlines()), statistics.median(words for _, words, _ in sentences(text))
    if lines > README_LINES:
        yield f"README.md has {lines} lines"
    if median > README_MEDIAN:
        yield f"README.md: half of its sentences have {median} words or more"


def main():
    source, renga = pathlib.Path(sys.argv[1]), sys.argv[2]
    checks = {"words": check_words, "sentences": check_sentences, "help": check_help, "readme": check_readme,
              "items": check_items}
    complaints = [line for name in sys.argv[3:] or checks for line in checks[name](source, renga)]
    print("\n".join(complaints) if complaints else "no complaint")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
