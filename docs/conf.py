"""Sphinx: ``make docs`` builds the site into build/docs."""

from __future__ import annotations

import typedbatch

project = "typedbatch"
author = "The typedbatch authors"
release = version = typedbatch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["examples", "_build"]
suppress_warnings = ["myst.xref_missing", "myst.header"]  # links to files of the repository; made pages
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["ray", "verl"]
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
nitpicky = False

html_theme = "furo"
html_title = f"typedbatch {version}"
html_static_path: list[str] = []
html_copy_source = False
