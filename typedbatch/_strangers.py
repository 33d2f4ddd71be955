"""Batches of other libraries: how each is called in full, and what converts it."""

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
"""Library and class, and the function in ``typedbatch.bridges`` that makes a Batch of it."""


def bridge_from(value: object) -> str:
    """The function that makes a Batch of an object of another library, ``"typedbatch.bridges.tianshou.from_tianshou"``.

    Looked up by the names of classes, so that no library is imported; empty if there is none.
    """
    for cls in type(value).__mro__:
        found = _BRIDGES.get((cls.__module__.partition(".")[0], cls.__name__))
        if found is not None:
            return f"typedbatch.bridges.{found}"
    is_tensorclass = vars(type(value)).get("_is_tensorclass") is True
    return "typedbatch.bridges.tensordict.from_tensordict" if is_tensorclass else ""


def full_name(value: object) -> str:
    """The class of an object with its module: ``"tianshou.data.batch.Batch"``."""
    return f"{type(value).__module__}.{type(value).__qualname__}"
