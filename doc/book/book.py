"""Makes the book: puts its pages into one folder, writes those that come from the program, and calls Sphinx.

usage: book.py SOURCE BUILD html|pdf|pages

SOURCE is the source tree and BUILD the tree in which Renga is built. The pages are those of doc/, as they are;
pages about options, functions and operators and the pictures are written here from what the program and its manual pages
say.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import pictures
import reference

MODULES = {"sphinx": "python3-sphinx", "myst_parser": "python3-myst-parser"}


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def find_python():
    """This Python, or the system's own, whichever has what the book is made with."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.access(python, os.X_OK) and all(has(python, module) for module in MODULES):
            return python
    return None


def refuse_missing(kind):
    """Ends with one sentence where something that the book is made with is not there."""
    missing = [] if find_python() else list(MODULES.values())
    if kind == "pdf" and not shutil.which("weasyprint"):
        missing.append("weasyprint")
    if missing:
        sys.exit(f"the book needs packages that are not here: apt-get install {' '.join(missing)}")


def link(target, name):
    if name.is_symlink() or name.exists():
        name.unlink()
    name.symlink_to(target)


def collect(source, out):
    """All pages that people wrote, under the names that their links have; the folders that they link to beside them."""
    pages = out / "doc"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    for kind in ("*.md", "*.svg", "*.png"):
        for page in sorted((source / "doc").glob(kind)):
            shutil.copy(page, pages)
    for name in ("conf.py", "book.css"):
        shutil.copy(source / "doc" / "book" / name, pages)
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "examples", "tutorials", "share", "src", "test"):
        link(source / name, out / name)
    return pages


def sphinx(builder, pages, target):
    subprocess.run([find_python(), "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder, "-d",
                    str(target.parent / f"{builder}.trees"), str(pages), str(target)], check=True)


def print_pdf(html, pdf):
    """One HTML page to PDF, with links within itself and chapters on pages of their own; weasyprint warns of CSS that
    browsers alone need."""
    page, text = html.with_name("print.html"), html.read_text().replace('href="index.html#', 'href="#')
    page.write_text(re.sub(r'(<span id="document-[^"]*"></span>)<section (id="[^"]*">)', r'<section class="chapter" \2\1', text))
    subprocess.run(["weasyprint", "-q", str(page), str(pdf)], check=True)


def main():
    source, build, kind = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    if kind != "pages":
        refuse_missing(kind)
    os.environ.update(OMP_NUM_THREADS="1", RENGA_LIBRARY=str(build / ".libs" / "librenga.so"))
    out = build / "doc" / "book"
    out.mkdir(parents=True, exist_ok=True)
    pages = collect(source, out)
    reference.write(source, build, pages)
    pictures.draw(source, build, pages)
    if kind == "html":
        sphinx("html", pages, out / "html")
        print(f"the book: {out / 'html' / 'index.html'}")
    elif kind == "pdf":
        sphinx("singlehtml", pages, out / "single")
        print_pdf(out / "single" / "index.html", out / "renga.pdf")
        print(f"the book: {out / 'renga.pdf'}")


if __name__ == "__main__":
    main()
