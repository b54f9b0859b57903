"""Sphinx configuration: MyST for pages, autodoc for code, Furo as the theme."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the modules of this directory, and the source code
os.environ["DJANGO_SETTINGS_MODULE"] = "docs.settings"
django.setup()

import hitl_django  # noqa: E402

project = "hitl-django"
author = "The hitl-django maintainers"
copyright = author  # noqa: A001
release = version = hitl_django.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs.extension.directives",
]
exclude_patterns = ["extension", "**/__pycache__"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4

smartquotes = False  # keep quotes as written

napoleon_numpy_docstring = False  # docstrings have Google's sections
napoleon_use_rtype = False

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # inherited docstrings are shown at the base class
autodoc_typehints_format = "short"
add_module_names = False
python_display_short_literal_types = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

nitpicky = True
#: Types that are not linked: those of other projects, because a build needs no network, and
#: internal types of the engine in public signatures.
nitpick_ignore_regex = [("py:.*", r"(?!hitl_django\.\w+$).*")]

html_theme = "furo"
html_title = f"hitl-django {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
