"""What Sphinx is to make of the book's pages."""
import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

project = "Renga"
author = "the authors of Renga"
copyright = author
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "alabaster"
html_theme_options = {"page_width": "70em", "sidebar_width": "16em", "fixed_sidebar": True}
html_static_path = ["book.css"]
html_css_files = ["book.css"]
exclude_patterns = ["table-*.md"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_title = "The book of Renga"
highlight_language = "none"
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
OPTION = re.compile(r"^-([a-z][a-z0-9_]*)")
FUNCTION = re.compile(r"^(Renga[A-Za-z0-9]+)(?:\(\))?$")


class LinkNames(SphinxPostTransform):
    """Names of options and of functions, wherever a page has them in code, lead to where they are described."""

    default_priority = 5

    def run(self):
        labels = self.env.get_domain("std").anonlabels
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, (nodes.reference, addnodes.pending_xref, nodes.title)):
                continue
            text = literal.astext()
            option, function = OPTION.match(text), FUNCTION.match(text)
            name = f"option-{option[1]}" if option else f"function-{function[1].lower()}" if function else None
            if name not in labels or labels[name][0] == self.env.docname:
                continue
            page, anchor = labels[name]
            uri = self.app.builder.get_relative_uri(self.env.docname, page) + "#" + anchor
            literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=uri, internal=True))


def setup(app):
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True}
