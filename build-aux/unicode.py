#!/usr/bin/env python3
"""usage: unicode.py [FOLDER]: writes the tables of Unicode that the tokenizers read, by Python's unicodedata.

The files are unicode.h, categories.c and canonical.c of src/data/tokenizer (default), laid out by clang-format. They are of
the version of Unicode that this Python has; rows are numbers alone, so that a newer version shows as a difference of rows.
"""

import os
import subprocess
import sys
import unicodedata

CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
CODES = range(0x110000)
HANGUL = range(0xAC00, 0xD7A4)  # made of parts by arithmetic
SAID = f"Unicode {unicodedata.unidata_version}"


def runs(value):
    """Where a property changes, and to what."""
    rows, last = [], None
    for code in CODES:
        own = value(chr(code))
        if own != last:
            rows.append((f"{code:#x}", own))
            last = own
    return rows


def small_letters():
    """Capital letters in runs of the same step and distance; of one letter the step is 1."""
    rows = []
    for code in CODES:
        small = chr(code).lower()
        if len(small) != 1 or ord(small) == code:
            continue
        distance = ord(small) - code
        if rows and rows[-1][3] == distance:
            first, last, step, _ = rows[-1]
            if code - last == step or (first == last and code - last == 2):
                rows[-1] = (first, code, code - last, distance)
                continue
        rows.append((code, code, 1, distance))
    return [(f"{first:#x}", f"{last:#x}", step, distance) for first, last, step, distance in rows]


def decompositions():
    rows = []
    for code in CODES:
        text = unicodedata.decomposition(chr(code))
        if not text or text.startswith("<") or code in HANGUL:
            continue
        parts = [int(part, 16) for part in text.split()]
        again = unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(code)
        rows.append((f"{code:#x}", f"{parts[0]:#x}", f"{parts[1] if len(parts) > 1 else 0:#x}", int(again)))
    return rows


def table(kind, name, rows):
    return f"const {kind} {name}[{len(rows)}][{len(rows[0])}] = {{" + ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows) + "};\n"


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run(["clang-format", "-i", os.path.join(folder, name)], check=True)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "src", "data", "tokenizer")
    categories = runs(lambda sign: CATEGORIES.index(unicodedata.category(sign)))
    small, combining, parts = small_letters(), runs(unicodedata.combining), decompositions()
    head = f"/* Data: {SAID}, written by build-aux/unicode.py. */\n#include \"unicode.h\"\n\n"
    write(folder, "unicode.h", f"""/* Tables of {SAID}, written by build-aux/unicode.py. */
#pragma once
#include <stdint.h>

/* General categories, three letters each, by the number of their bit. */
#define RENGA_CATEGORIES "{' '.join(CATEGORIES)}"

/* The first code point of a run and its category. */
extern const uint32_t renga_category_runs[{len(categories)}][2];
/* First and last capital letter, the step between them, and how far the small ones are. */
extern const int32_t renga_small_letters[{len(small)}][4];
/* The first code point of a run and its canonical combining class. */
extern const uint32_t renga_combining_runs[{len(combining)}][2];
/* A code point, the one or two that it is made of, and whether these are composed again. */
extern const uint32_t renga_decompositions[{len(parts)}][4];
""")
    write(folder, "categories.c", head + table("uint32_t", "renga_category_runs", categories) + "\n" +
          table("int32_t", "renga_small_letters", small))
    write(folder, "canonical.c", head + table("uint32_t", "renga_combining_runs", combining) + "\n" +
          table("uint32_t", "renga_decompositions", parts))


main()
