"""Settings of Sphinx: ``make docs`` builds the site into build/site."""

from __future__ import annotations

import typedbatch

project = "typedbatch"
author = "The typedbatch authors"
release = version = typedbatch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["examples"]
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository; tests/test_site.py looks at all links
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["ray", "verl"]  # in environments of their own: see the Makefile
autodoc_default_options = {"show-inheritance": True}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"typedbatch {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
