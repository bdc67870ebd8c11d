"""Sphinx's settings for the pages that tools/site_pages.py puts together."""

import re

import rda

project = "RDA for PyTorch"
author = "the authors of rda-torch"
copyright = "the authors of rda-torch, Apache-2.0"
version = release = rda.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "fully-qualified"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
highlight_language = "none"  # of code that does not say what it is
default_role = "code"
suppress_warnings = ["ref.python"]  # `goal` is an attribute of two classes
copybutton_prompt_text = "$ "

html_theme = "furo"
html_title = f"RDA for PyTorch {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False

SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields|Example|Examples|Note):$")


def keep_lines(app, what, name, of, options, lines):
    """Show indented lines of a docstring as they are: equations, and tables of parameters.

    Sphinx would make running text of them. What stands under Google's headings it knows.
    """
    # napoleon takes "words: more words" at the start of an attribute's docstring for its type.
    shown = [""] if what in ("attribute", "property", "data") else []
    for i, line in enumerate(lines):
        before = next((each for each in reversed(lines[:i]) if each.strip()), "")
        deeper = line.startswith(" ") and before and not before.startswith(" ")
        if deeper and not SECTION.match(before):
            shown += ["", "::", ""]
        shown.append(line)
    lines[:] = shown


def setup(app):
    """Before napoleon reads the docstrings."""
    app.connect("autodoc-process-docstring", keep_lines, priority=100)
