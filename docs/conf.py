"""Settings of Sphinx: ``make docs`` builds the site into build/site."""

from __future__ import annotations

import gc
import re
import sys

from sphinx.application import Sphinx

import typedbatch

project = "typedbatch"
author = "The typedbatch authors"
release = version = typedbatch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["examples", "changelog", "editors/vscode"]
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository; tests/test_site.py looks at all links
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# Sphinx reads annotations that only type checkers see, and would show no other resolved if these were unknown.
autodoc_type_aliases = {name: name for name in ("Closed", "ClosedToWriting")}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["ray", "transfer_queue", "omegaconf", "verl"]  # in environments of their own: see the Makefile
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

_OTHERS = (
    "annotated_types", "beartype", "collections", "contextlib", "gymnasium", "jaxtyping", "minari", "np", "numpy", "os",
    "pyarrow", "pydantic", "pydantic_core", "ray", "tensordict", "tianshou", "torch", "types", "typing",
    "typing_extensions", "verl",
)  # fmt: skip
_UNLISTED = (
    "Buffer", "Checker", "ClosedBatch", "Convention", "Dataset", "Device", "Distribution", "Dtype", "Field", "NDArray",
    "Nan", "PackedSequence", "Random", "Rng", "Schema", "SearchStrategy", "Slots", "Tensor", "ViewRequirementLike",
)  # fmt: skip
# A link to what does not exist is an error, but for what others document, and for type variables.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", rf"({'|'.join(_OTHERS)})\..*"),
    (r"py:.*", rf"(.*\.)?({'|'.join(_UNLISTED)})"),
    (r"py:.*", r"typedbatch\._typing\.(Annotated|ArrayOrTensor)"),
    (r"py:.*", r"(.*\.)?([A-Z]|AS(_co)?|[A-Z][a-z]*_co(ntra)?|Obs|Act|DistT)"),
]

html_theme = "furo"
html_title = f"typedbatch {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is copied is what one runs
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    """What no setting says."""
    gc.set_threshold(100_000)  # a build throws few objects away, and looking for them took a quarter of its time
    app.connect("source-read", _end_of_examples)
    app.connect("autodoc-process-bases", _public_bases)


def _end_of_examples(app: Sphinx, page: str, source: list[str]) -> None:
    """Take the empty line away that ends an example, which doctest needs and nobody wants to see."""
    source[0] = re.sub(r"\n\n```$", "\n```", source[0], flags=re.MULTILINE)


def _public_bases(app: Sphinx, name: str, of: type, options: object, bases: list[type]) -> None:
    """Name no class that is there to divide the code."""
    bases[:] = [base for base in bases if _is_public(base)] or [object]


def _is_public(base: type) -> bool:
    """Return whether the package of a class has it, too, unless it is one of others."""
    package, _, module = base.__module__.rpartition(".")
    is_own = base.__module__.startswith("typedbatch.")
    return not is_own or (module[0] != "_" and hasattr(sys.modules[package], base.__name__))
