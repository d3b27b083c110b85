"""Whether a reader finds answers: the questions of questions.txt, asked of the book's own search as its page asks it.

usage: search.py SEARCHINDEX.JS QUESTIONS
"""
import json
import pathlib
import re
import sys

from sphinx.search.en import SearchEnglish

FIRST = 8  # what a screen shows


def read_index(path):
    text = path.read_text()
    return json.loads(text[text.index("(") + 1:text.rindex(")")])


def places(table, word):
    found = table.get(word, [])
    return set(found if isinstance(found, list) else [found])


def score(index, words):
    """As searchtools.js: a page has all words; one in a title counts three times one in the text, a part of a word less."""
    scores = {}
    for word in words:
        seen = {}
        for table, whole, part in ((index["terms"], 5, 2), (index["titleterms"], 15, 7)):
            names = [word] if word in table or len(word) <= 2 else [other for other in table if word in other]
            for name in names:
                for page in places(table, name):
                    seen[page] = max(seen.get(page, 0), whole if name == word else part)
        for page, points in seen.items():
            scores.setdefault(page, []).append(points)
    ranked = [(max(points), index["docnames"][page]) for page, points in scores.items() if len(points) == len(words)]
    return [name for _, name in sorted(ranked, key=lambda item: (-item[0], index["titles"][index["docnames"].index(item[1])]))]


def main():
    index, stemmer, missed = read_index(pathlib.Path(sys.argv[1])), SearchEnglish({}), 0
    for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        question, words, pages = (part.strip() for part in line.split("|"))
        words = [stemmer.stem(word.lower()) for word in re.split(r"[\W_]+", words)
                 if word and word.lower() not in stemmer.stopwords]
        found = score(index, words)[:FIRST]
        if not set(found) & set(pages.split()):
            print(f"{question} {words}: finds {found}, not {pages}")
            missed += 1
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
