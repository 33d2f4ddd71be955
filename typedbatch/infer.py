"""``infer_schema``, which writes the source of a protocol or record that a batch matches."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections import Counter
from typing import Any, Final, Literal

import numpy as np

from typedbatch._core.kinds import ARRAY, BATCH, DISTRIBUTION, KINDS, NONE, RAGGED, SCALAR, TENSOR, Tree, leading_shape
from typedbatch._core.lengths import leaves, require_tree
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, SettingError
from typedbatch.schema.dtypes import JAXTYPING

Style = Literal["record", "protocol"]

_BASES: Final = {"record": "BatchRecord", "protocol": "BatchProtocol, Protocol"}
_TAKEN: Final = {
    *("Batch", "BatchRecord", "BatchProtocol", "Protocol", "NDArray", "Tensor", "Distribution", "Shaped", "np"),
    *JAXTYPING.values(),
}
_ROWS: Final = ("N", "M", "K", "L")


def infer_schema(batch: Any, name: str = "Inferred", style: Style = "protocol", *, sizes: bool = False) -> str:
    """Write the source of a protocol or record that ``batch`` matches, to be pasted into a program and edited.

    Dtypes are those of the data. Sizes become names: ``N`` for the rows, which all fields share, and a name such as
    ``obs_dim`` for each further dimension. Fields of which one name is a prefix of the other, as ``obs`` and
    ``obs_next``, share these names if their shapes are equal. Nested batches become classes of their own, and share one
    if they have equal fields and such names.

    Args:
        batch: Any batch.
        name: Name of the class.
        style: ``"protocol"``, which any batch with these fields matches, or ``"record"``, which has a constructor too.
        sizes: Whether to write numbers instead of names for the dimensions after the rows.

    Returns:
        The source, including imports, with shapes in jaxtyping's syntax. Fields that cannot be declared in a class
        because of their names, and distributions whose number of rows is not N, are in comments.

    Raises:
        LeafError: ``batch`` is not a Batch.
        SettingError: ``style`` is not a style.
        FieldNameError: ``name`` is not a valid name of a class.
    """
    if style not in _BASES:
        raise SettingError(f"style= must be 'protocol' or 'record', got {style!r}")
    given: Any = name
    if not isinstance(given, str) or not given.isidentifier() or keyword.iskeyword(given):
        raise FieldNameError(f"name= must be a valid name of a class, got {name!r}")
    writer = _Writer(require_tree(batch, "infer_schema()"), style, sizes)
    writer.declare(batch, name)
    return writer.source()


class _Writer:
    """The classes written so far, inner ones first, and their imports."""

    def __init__(self, batch: Tree, style: Style, sizes: bool) -> None:
        self._style = style
        self._sizes = sizes
        self._imports: dict[str, set[str]] = {"typedbatch": {"BatchRecord" if style == "record" else "BatchProtocol"}}
        if style == "protocol":
            self._from("typing", "Protocol")
        self._classes: list[str] = []
        self._bodies: dict[str, str] = {}
        self._taken = dict.fromkeys(_TAKEN, 1)
        self._dim_names = _DimNames()
        lengths = Counter(leading_shape(leaf)[0] for _, leaf in leaves(batch.__dict__) if leading_shape(leaf))
        names = (*_ROWS, *(f"N{number}" for number in range(len(_ROWS), len(lengths))))
        self._rows = {length: name for (length, _), name in zip(lengths.most_common(), names, strict=False)}

    def source(self) -> str:
        """Return the imports and the classes."""
        numpy = ["import numpy as np"] if any("np." in text for text in self._classes) else []
        lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._imports.items())]
        standard = [line for line in lines if line.startswith("from typing ")]
        own = [line for line in lines if line.startswith("from typedbatch ")]
        others = [line for line in lines if line not in (*standard, *own)]
        blocks = ["\n".join(block) for block in (standard, numpy + others, own) if block]
        return "\n\n".join(blocks) + "\n\n\n" + "\n\n\n".join(self._classes) + "\n"

    def declare(self, batch: Tree, name: str) -> str:
        """Write the class of a batch. Return its name, which has a number added if ``name`` is taken."""
        name = _new_name(name, self._taken)
        lines = []
        for field, value in batch.__dict__.items():
            hint = self._hint(field, value)
            usable = field.isidentifier() and unicodedata.normalize("NFKC", field) == field
            usable = usable and not (
                keyword.iskeyword(field) or field[:2] == "__" or (hasattr(Batch, field) and field != "values")
            )
            declared = usable and (KINDS[type(value)] is not DISTRIBUTION or self._has_rows(value))
            lines.append(f"    {field}: {hint}" if declared else f"    # {field!r}: {hint}, which no class can declare")
        if not any(not line.startswith("    #") for line in lines):
            lines.append("    pass")
        body = "\n".join(lines)
        for twin, text in self._bodies.items():  # obs and obs_next, but not any two batches that happen to be alike
            if text == body and (name.startswith(twin) or twin.startswith(name)):
                return twin
        self._bodies[name] = body
        self._classes.append(f"class {name}({_BASES[self._style]}):\n{body}")
        return name

    def _hint(self, field: str, value: Any) -> str:
        kind = KINDS[type(value)]
        if kind is BATCH:
            if not value.__dict__:
                return self._from("typedbatch", "Batch")
            words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", field))
            camel = "".join(word[:1].upper() + word[1:] for word in words)
            names = (name for name in (camel, f"Nested{camel}") if name.isidentifier() and not keyword.iskeyword(name))
            return self.declare(value, next(names, "Nested"))
        if kind is NONE:
            return "None"
        if kind is TENSOR:
            return self._array(value, field, self._from("torch", "Tensor"))
        if kind is ARRAY and value.dtype.kind in "biufc" and value.shape:
            return self._array(value, field, "np.ndarray")
        if kind in (ARRAY, SCALAR):
            return self._number(value)
        if kind is DISTRIBUTION:
            return self._from("torch.distributions", "Distribution")
        if kind is RAGGED:
            outer, self._rows = self._rows, {int(value.sizes.sum()): _ROWS[0]}  # sizes in a Ragged are local to it
            inner = self._hint(field, value.values)
            self._rows = outer
            return f"{self._from('typedbatch', 'Ragged')}[{inner}]"
        plain = type(value) in (str, bytes, int, float, bool, dict, list, tuple, set)
        return type(value).__name__ if plain else "object"

    def _has_rows(self, value: Any) -> bool:
        """Return True if a value has N rows, which an annotation without a shape requires."""
        shape = leading_shape(value)
        return bool(shape) and self._rows[shape[0]] == _ROWS[0]

    def _array(self, value: Any, field: str, cls: str) -> str:
        dtype = JAXTYPING.get(getattr(value.dtype, "name", str(value.dtype).removeprefix("torch.")), "Shaped")
        shape = tuple(value.shape)
        dims = [self._rows[shape[0]], *self._further_dims(shape[1:], field)] if shape else []
        return f'{self._from("jaxtyping", dtype)}[{cls}, "{" ".join(dims)}"]'

    def _number(self, value: Any) -> str:
        if value.shape and not self._has_rows(value):
            return f'{self._from("jaxtyping", "Shaped")}[np.ndarray, "{self._rows[value.shape[0]]} ..."]'
        items = {type(item) for item in value.flat} if value.dtype == object and value.shape else set()
        if len(items) == 1 and (item := items.pop()) in (str, bytes):
            return f"{self._from('typedbatch', 'Column')}[{item.__name__}]"
        if value.shape:
            scalar = value.dtype.type.__name__
            return f"{self._from('numpy.typing', 'NDArray')}[np.{scalar}]" if hasattr(np, scalar) else "np.ndarray"
        return "object" if value.dtype == object else f"np.{value.dtype.type.__name__}"

    def _further_dims(self, shape: tuple[int, ...], field: str) -> list[str]:
        if self._sizes:
            return list(map(str, shape))
        owner = self._dim_names.owner(field, shape)
        word = re.sub(r"\W", "_", owner) or "field"
        word = f"d{word}" if word[0].isdigit() else word
        return [f"{word}_dim"] if len(shape) == 1 else [f"{word}_{i}" for i in range(len(shape))]

    def _from(self, module: str, name: str) -> str:
        self._imports.setdefault(module, set()).add(name)
        return name


def _new_name(name: str, taken: dict[str, int]) -> str:
    """Return a name that is not taken yet, and take it: the second ``Camera`` becomes ``Camera2``."""
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name}{taken[name]}"
    taken[unique] = 1
    return unique


class _DimNames:
    """The fields after which the dimensions after the rows are named.

    These dimensions of a field are named after an earlier field with a related name and the same sizes, or else after
    the field itself. Names are related if one is the other plus a suffix, as ``obs`` and ``obs_next``.
    """

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._owners: dict[tuple[str, tuple[int, ...]], int] = {}
        """The order of the fields that give names, by name and sizes."""
        self._longer: dict[tuple[str, tuple[int, ...]], str] = {}
        """The first of these fields that begins with a prefix, by prefix (up to an underscore) and sizes."""

    def owner(self, field: str, shape: tuple[int, ...]) -> str:
        """Return the name for these sizes of a field. Nested fields of the same name may have different sizes."""
        prefixes = [field[:i] for i, letter in enumerate(field) if letter == "_"]
        related = [name for name in (*prefixes, field) if (name, shape) in self._owners]
        related += [self._longer[field, shape]] if (field, shape) in self._longer else []
        if related:
            return min(related, key=lambda name: self._owners[name, shape])
        owner = _new_name(field, self._taken)
        self._owners[owner, shape] = len(self._owners)
        for prefix in prefixes:
            self._longer.setdefault((prefix, shape), owner)
        return owner
