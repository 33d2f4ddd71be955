"""Display of batches in the console, in a notebook and under rich, and previews of long arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, SCALAR, TENSOR, Tree, describe, is_placeholder, leading_shape
from typedbatch._core.lengths import leaves
from typedbatch._core.meta import meta_of
from typedbatch._report import cut

_MOST: Final = 40
"""Largest number of elements that an array is shown with in full."""
_FIRST: Final = 4
"""Number of elements in a preview."""
_WIDEST: Final = 24
"""Largest number of characters of an element."""
_STYLE = (
    "<style>"
    ".typedbatch{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px;line-height:1.6;"
    "overflow-x:auto;white-space:nowrap}"
    ".typedbatch summary{cursor:pointer}"
    ".typedbatch i{color:#858c99;font-style:normal}"
    ".typedbatch .tb-body{margin-left:1.1em;padding-left:.7em;border-left:1px solid #9ca3af66}"
    ".typedbatch .tb-row{display:grid;grid-template-columns:9em 8em 6em 5em 6em auto;gap:0 1em}"
    ".typedbatch .tb-row span{color:#858c99}"
    "</style>"
)


def is_long(leaf: Any) -> bool:
    """Return True for an array or tensor whose elements would fill the screen."""
    kind = KINDS[type(leaf)]
    if kind is ARRAY:
        return bool(leaf.size > _MOST)
    return kind is TENSOR and not leaf.is_nested and leaf.numel() > _MOST


def preview(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """Return a line such as ``"array float32 (256, 4) [0.1, -0.2, 0.5, 0, ...]"``.

    Args:
        leaf: Array or tensor.
        show: Function that returns the text of an element that is a Python object.
    """
    kind = "tensor" if KINDS[type(leaf)] is TENSOR else "array"
    device = f" on {leaf.device}" if kind == "tensor" and leaf.device.type != "cpu" else ""
    dtype = str(leaf.dtype).removeprefix("torch.")
    return " ".join(filter(None, (kind, dtype, str(tuple(leaf.shape)) + device, first_values(leaf, show))))


def first_values(leaf: Any, show: Callable[[Any], str] = repr) -> str:
    """Return the first elements of an array or tensor, ``"[1, 2, 3, 4, ...]"``, or ``""`` if they cannot be read."""
    try:
        count = leaf.numel() if KINDS[type(leaf)] is TENSOR else leaf.size
        positions = zip(*np.unravel_index(range(min(count, _FIRST)), tuple(leaf.shape)), strict=True)
        elements = [leaf[tuple(map(int, position))] for position in positions]
        values = []
        for element in elements:
            value = element.item() if KINDS[type(element)] is TENSOR else element
            if isinstance(value, (float, complex, np.inexact)):
                values.append(f"{value:.4g}")
            else:
                text = str(value) if isinstance(value, (np.generic, np.ndarray)) else show(value)
                values.append(cut(" ".join(text.split()), _WIDEST))
    except Exception:  # noqa: BLE001  # Meta tensors, tensors inside torch.func and foreign classes may raise anything.
        return ""
    return f"[{', '.join([*values, *(['...'] if count > _FIRST else [])])}]"


def text(tree: Tree) -> str:
    """Return the tree as Python source, one field a line, in the order of the fields; long arrays are cut to a line."""
    name = type(tree).__name__
    meta = meta_of(tree)
    if not tree.__dict__ and not meta:
        return f"{name}()"
    lines = [f"{name}("]
    for key, value in tree.__dict__.items():
        label = key if key.isidentifier() else repr(key)
        body = text(value) if KINDS[type(value)] is BATCH else _leaf_text(value)
        lines.append(f"    {label}: {body},".replace("\n", "\n" + " " * (6 + len(label))))
    if meta:
        lines.append(f"    meta={_object_text(meta)},")
    return "\n".join([*lines, ")"])


def _leaf_text(value: Any) -> str:
    kind = KINDS[type(value)]
    if kind in (ARRAY, TENSOR) and is_long(value):
        return preview(value, _element_text)
    if kind is SCALAR:
        return str(value)  # 1 and not np.int64(1), so that a row reads like its column.
    if kind is ARRAY and value.dtype.hasobject:
        body = np.array2string(value, separator=", ", prefix="array(", formatter={"object": _element_text})
        return f"array({body}, dtype=object)"
    return repr(value) if kind in (ARRAY, TENSOR) else _object_text(value)


def _element_text(value: Any) -> str:
    """Return the text of an element of an object array; a list is marked as one, as it would look like a dimension."""
    return f"list({_object_text(value)})" if type(value) is list else _object_text(value)


def _object_text(value: Any) -> str:
    # This is repr, except that sets are sorted, since their own order changes from run to run.
    if type(value) in (set, frozenset) and value:
        body = f"{{{', '.join(sorted(map(_object_text, value)))}}}"
        return body if type(value) is set else f"frozenset({body})"
    if type(value) is dict:
        return f"{{{', '.join(f'{_object_text(k)}: {_object_text(v)}' for k, v in value.items())}}}"
    if type(value) is list:
        return f"[{', '.join(map(_object_text, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_object_text, value))}{',' * (len(value) == 1)})"
    return repr(value)


def summary(tree: Tree) -> str:
    """Return one line without values: ``Batch[N=256]  act i64[256]  obs f32[256,4]``."""
    found: list[tuple[str, str, tuple[int, ...]]] = []
    for path, leaf in leaves(tree.__dict__):
        try:
            found.append((path, describe(leaf), leading_shape(leaf)))
        except Exception:  # noqa: BLE001  # A foreign class may raise anything, which must not replace the error reported.
            found.append((path, type(leaf).__name__, ()))
    described = [f"{path} {text}" for path, text, _ in found[:12]]
    sizes = {size for _, _, shape in found for size in shape[:1]}
    rows = f"[N={sizes.pop()}]" if len(sizes) == 1 else ""
    more = [f"and {len(found) - 12} more"] if len(found) > 12 else []
    return "  ".join([type(tree).__name__ + rows, *described, *more])


def html(tree: Tree) -> str:
    """Return a collapsible tree with kind, dtype, shape, size and first values of every field, without scripts."""
    return f'<div class="typedbatch">{_STYLE}{_branch(type(tree).__name__, tree, True)}</div>'


def _branch(label: str, tree: Tree, is_open: bool) -> str:
    from html import escape  # imported here because only notebooks need it

    count = len(tree.__dict__)
    size = _size(leaf for _, leaf in leaves(tree.__dict__))
    note = f"{count} field{'' if count == 1 else 's'}, {size}"
    rows = ""
    for name, value in tree.__dict__.items():
        kind = KINDS[type(value)]
        if is_placeholder(value):
            cells = ["reserved"]
        elif kind is BATCH:
            rows += _branch(name, value, False)
            continue
        else:
            numeric = kind in (ARRAY, TENSOR, SCALAR)
            source = {ARRAY: "numpy", TENSOR: "torch", SCALAR: "numpy"}.get(kind, "")
            dtype = str(value.dtype).removeprefix("torch.") if numeric else ""
            shape = str(tuple(value.shape)) if numeric and not (kind is TENSOR and value.is_nested) else describe(value)
            where = f" on {value.device}" if kind is TENSOR and value.device.type != "cpu" else ""
            size = _size([value]) if numeric else ""
            cells = [shape, dtype, source + where, size, first_values(value, _object_text) if numeric else ""]
        spans = "".join(f"<span>{escape(cell)}</span>" for cell in cells)
        rows += f"<div class='tb-row'><b>{escape(name)}</b>{spans}</div>"
    if meta := meta_of(tree):
        rows += f"<div class='tb-row'><b>meta</b><span>{escape(_object_text(meta))}</span></div>"
    return (
        f"<details{' open' if is_open else ''}><summary><b>{escape(label)}</b> <i>{escape(note)}</i></summary>"
        f"<div class='tb-body'>{rows}</div></details>"
    )


def _size(values: Iterable[Any]) -> str:
    count: float = 0
    for leaf in values:
        with suppress(RuntimeError):  # Sparse and nested tensors have no nbytes.
            count += leaf.nbytes if KINDS[type(leaf)] in (ARRAY, TENSOR, SCALAR) else 0
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


class _Text(str):
    """Text that is printed without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Display(Tree):
    """The display methods of a Batch."""

    def __repr__(self) -> str:
        return text(self)

    def __rich_repr__(self) -> Iterable[tuple[str, Any]]:
        for name, value in self.__dict__.items():
            yield name, _Text(_leaf_text(value)) if KINDS[type(value)] in (ARRAY, TENSOR) and is_long(value) else value
        if meta := meta_of(self):
            yield "meta", meta

    def _repr_html_(self) -> str:
        return html(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.__dict__)
