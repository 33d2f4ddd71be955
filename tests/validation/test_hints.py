"""Hints in a report: both stages, a nested declaration, the bridge from another library."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow
import pytest
import tensordict
import tianshou.data
import torch
from pydantic import BaseModel
from torch import Tensor

from tests.validation.helpers import Array, N, fields, load, nested, record, refused
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    LogpOldBatch,
    LogpOldProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    convert,
)
from typedbatch.bridges.arrow import from_arrow
from typedbatch.bridges.pydantic import to_batch
from typedbatch.bridges.tensordict import from_tensordict
from typedbatch.bridges.tianshou import from_tianshou
from typedbatch.errors import LeafError
from typedbatch.infer import infer_schema

Both = np.ndarray | torch.Tensor
K = TypeVar("K", covariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741


def processed(**changes: Any) -> Batch:
    """Return a rollout as ``process_fn`` returns it: arrays from the buffer, tensors from the networks."""
    made = {name: torch.zeros(N) for name in ("returns", "adv", "v_s", "logp_old")}
    return Batch(fields(**{**made, **changes}))


def hints(batch: object, schema: Any) -> set[str]:
    return {problem.hint for problem in refused(batch, schema).problems}


# ---- arrays and tensors at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [LogpOldProtocol[Both], LogpOldBatch[Both], LogpOldProtocol[Both, Both, Both]])
def test_a_declaration_of_both_takes_both(schema: Any):
    assert conforms(processed(), schema)
    assert conforms(convert(processed(), LogpOldProtocol), schema)
    assert conforms(convert(processed(), LogpOldProtocol[Tensor]), schema)
    assert type(convert(processed(), schema).rew) is np.ndarray  # each stays what it is
    assert not conforms(processed(adv=torch.zeros(N - 1)), schema)
    assert not conforms(processed(adv=None), schema)


@pytest.mark.parametrize(("schema", "here"), [(LogpOldProtocol, "torch"), (LogpOldProtocol[Tensor], "numpy")])
def test_a_mixed_batch_is_told_of_it(schema: Any, here: str):
    name = "LogpOldProtocol" if schema is LogpOldProtocol else "LogpOldProtocol[Tensor]"
    (hint,) = hints(processed(), schema)
    assert hint == (
        f"it is of the {here} kind; convert(batch, {name}) changes that"
        "  arrays and tensors are mixed; LogpOldProtocol[np.ndarray | torch.Tensor] takes both"
    )


def test_what_is_proposed_keeps_the_other_parameters():
    class Cam(BatchRecord):
        cam: Array

    batch = Batch(nested(rew=torch.zeros(N)))
    (hint,) = hints(batch, RolloutBatchProtocol[np.ndarray, Cam])
    assert hint.endswith("RolloutBatchProtocol[np.ndarray | torch.Tensor, Cam] takes both")
    assert conforms(batch, RolloutBatchProtocol[Both, Cam])


def test_a_batch_of_one_kind_is_told_to_convert():
    (hint,) = hints(convert(processed(), LogpOldProtocol[Tensor]), LogpOldProtocol)
    assert hint == "it is of the torch kind; convert(batch, LogpOldProtocol) changes that"


def test_what_has_no_parameter_has_no_both():
    class Goal(RolloutBatch):
        goal: Array

    (hint,) = hints(Batch(fields(goal=torch.zeros(N))), Goal)
    assert hint == "it is of the torch kind; convert(batch, Goal) changes that"


# ---- nested observations ---------------------------------------------------------------------------------------------


def declared(source: str, name: str) -> Any:
    return getattr(load(source, strings=False), name)


@pytest.mark.parametrize("schema", [RolloutBatchProtocol, RolloutBatch])
def test_a_nested_observation_is_told_how_to_be_declared(schema: Any):
    batch = Batch(nested())
    error = refused(batch, schema)
    name = schema.__name__
    says = f"declare nested ones, as in {name}[np.ndarray, MyObs];  infer_schema(batch.obs, 'MyObs') writes MyObs"
    assert [(problem.path, problem.hint) for problem in error.problems] == [("obs", says), ("obs_next", says)]
    assert "infer_schema(batch.obs, 'MyObs') writes MyObs" in str(error)
    mine = declared(infer_schema(batch.obs, "MyObs"), "MyObs")  # as it says
    assert conforms(batch, schema[np.ndarray, mine])


def test_a_nested_action_comes_third():
    batch = Batch(fields(act=Batch(arm=np.zeros(N))))
    (hint,) = hints(batch, RolloutBatchProtocol)
    assert hint == (
        "declare nested ones, as in RolloutBatchProtocol[np.ndarray, np.ndarray, MyAct];  "
        "infer_schema(batch.act, 'MyAct') writes MyAct"
    )
    mine = declared(infer_schema(batch.act, "MyAct"), "MyAct")
    assert conforms(batch, RolloutBatchProtocol[np.ndarray, np.ndarray, mine])


def test_a_declaration_of_ones_own_with_parameters_of_its_own():
    class Mine(BatchProtocol, Protocol[K, O]):
        rew: K
        look: O

    class Further(Mine[np.ndarray, O], Protocol[O]):
        pass

    batch = Batch(rew=np.zeros(3), look=Batch(cam=np.zeros(3)))
    (hint,) = hints(batch, Mine[np.ndarray, np.ndarray])
    assert hint.startswith("declare nested ones, as in Mine[np.ndarray, MyO];")
    (hint,) = hints(Batch(rew=np.zeros(3), look=Batch(cam=np.zeros(3))), record(look=Array, rew=Array))
    assert hint == "it is nested; infer_schema(batch.look) writes a declaration of it"
    assert not conforms(batch, Further[np.ndarray])


def test_nothing_is_proposed_for_a_nested_reward():
    (problem,) = refused(Batch(fields(rew=Batch(a=np.zeros(N)))), RolloutBatchProtocol).problems
    assert (problem.path, problem.hint) == ("rew", "")


# ---- batches of other libraries --------------------------------------------------------------------------------------


@tensordict.tensorclass
class Step:
    rew: Tensor


class Model(BaseModel):
    rew: list[float]


OTHERS = [
    (tianshou.data.Batch(obs=np.zeros(3)), "tianshou.data.batch.Batch", "tianshou.from_tianshou"),
    (tensordict.TensorDict(obs=torch.zeros(3)), "tensordict._td.TensorDict", "tensordict.from_tensordict"),
    (Step(rew=torch.zeros(3), batch_size=[3]), f"{__name__}.Step", "tensordict.from_tensordict"),
    (Model(rew=[1.0]), f"{__name__}.Model", "pydantic.to_batch"),
    (pyarrow.table({"rew": [1.0]}), "pyarrow.lib.Table", "arrow.from_arrow"),
]


@pytest.mark.parametrize(("other", "name", "bridge"), OTHERS, ids=[name for _, name, _ in OTHERS])
def test_a_batch_of_another_library_is_named_in_full(other: Any, name: str, bridge: str):
    (problem,) = refused(other, RolloutBatchProtocol).problems
    assert (problem.code, problem.expected, problem.got) == ("TB102 not-a-batch", "a typedbatch.Batch", f"a {name}")
    assert problem.hint == f"typedbatch.bridges.{bridge}(batch) makes it one"
    assert not conforms(other, RolloutBatchProtocol)


def test_the_bridges_that_are_named_make_a_batch():
    makes = (from_tianshou, from_tensordict, from_tensordict, to_batch, from_arrow)
    for (other, _, bridge), make in zip(OTHERS, makes, strict=True):
        module, _, name = bridge.partition(".")
        assert getattr(importlib.import_module(f"typedbatch.bridges.{module}"), name) is make
        assert type(make(other)) is Batch


def test_the_constructor_names_the_bridge_too():
    with pytest.raises(LeafError, match=r"got tianshou\.data\.batch\.Batch; typedbatch\.bridges\.tianshou\.from_ti"):
        Batch(OTHERS[0][0])
    with pytest.raises(LeafError, match=r"got int; name the field"):
        Batch(5)


def test_no_library_is_imported_to_know_its_batches():
    code = (
        "import sys, typedbatch; typedbatch.conforms(5, typedbatch.RolloutBatchProtocol)\n"
        "try: typedbatch.validate(5, typedbatch.RolloutBatchProtocol)\n"
        "except typedbatch.SchemaError: print([m for m in ('tianshou', 'tensordict', 'pyarrow')"
        " if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
