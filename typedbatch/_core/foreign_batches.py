"""Batches of other libraries: their full class names, and the functions that convert them."""

from __future__ import annotations

from typing import Final

_BRIDGES: Final = {
    ("tianshou", "Batch"): "tianshou.from_tianshou",
    ("ray", "SampleBatch"): "rllib.from_rllib",
    ("ray", "MultiAgentBatch"): "rllib.from_rllib",
    ("tensordict", "TensorDictBase"): "tensordict.from_tensordict",
    ("minari", "EpisodeData"): "minari.from_minari",
    ("pyarrow", "Table"): "arrow.from_arrow",
    ("pydantic", "BaseModel"): "pydantic.to_batch",
}
"""Function in ``typedbatch.bridges`` that converts to a Batch, by library and class."""


def bridge_from(value: object) -> str:
    """Return the name of the function that converts an object of another library to a Batch, or an empty string.

    An example is ``"typedbatch.bridges.tianshou.from_tianshou"``. The look-up uses the names of classes, so that no
    library is imported.
    """
    for cls in type(value).__mro__:
        found = _BRIDGES.get((cls.__module__.partition(".")[0], cls.__name__))
        if found is not None:
            return f"typedbatch.bridges.{found}"
    is_tensorclass = vars(type(value)).get("_is_tensorclass") is True
    return "typedbatch.bridges.tensordict.from_tensordict" if is_tensorclass else ""


def full_name(value: object) -> str:
    """Return the name of the class of an object with its module: ``"tianshou.data.batch.Batch"``."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
