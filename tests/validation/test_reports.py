"""Reports of problems: their hints, the names that they suggest, and the pages of the errors."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args

import numpy as np
import pyarrow
import pytest
import tensordict
import tianshou.data
import torch
from jaxtyping import Float64
from pydantic import BaseModel
from torch import Tensor

import typedbatch
from tests.validation.helpers import Array, Cam, N, fields, load, nested, paths, record, refused
from typedbatch import (
    ActBatch,
    Batch,
    BatchProtocol,
    BatchRecord,
    LogpOldBatch,
    LogpOldProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    conforms,
    convert,
    extend,
    validate,
)
from typedbatch.audit import AuditCode
from typedbatch.bridges.arrow import from_arrow
from typedbatch.bridges.pydantic import to_batch
from typedbatch.bridges.tensordict import from_tensordict
from typedbatch.bridges.tianshou import from_tianshou
from typedbatch.errors import Code, DeclarationError, LeafError, TypedBatchError
from typedbatch.infer import infer_schema


def test_a_nested_batch_of_many_leaves_has_one_vote_on_the_rows():
    info = Batch({f"stat_{i}": np.zeros(N - 1) for i in range(8)})
    assert {path.split(".")[0] for path, _ in paths(Batch(fields(info=info)), RolloutBatchProtocol)} == {"info"}


def test_no_hint_to_convert_what_convert_cannot_change():
    objects = np.array([None] * N)
    with pytest.raises(SchemaError) as caught:
        convert(Batch(fields(rew=objects)), RolloutBatch[Tensor])
    assert [problem.path for problem in caught.value.problems] == ["rew"]
    assert "convert(" not in caught.value.problems[0].hint


def test_the_hint_to_convert_names_the_schema_of_the_whole_batch():
    schema = record(obs=Cam, act=Array)
    (problem,) = refused(Batch(obs=Batch(cam=torch.zeros(2)), act=np.zeros(2)), schema).problems
    assert "convert(batch, Cam)" not in problem.hint  # that would turn the whole batch into its observation
    validate(convert(Batch(obs=Batch(cam=torch.zeros(2)), act=np.zeros(2)), schema), schema)


def test_a_row_of_declared_shapes_is_told_so_too():
    schema = record(adv=Float64[np.ndarray, "N"], pos=Float64[np.ndarray, "N 3"], scale=Float64[np.ndarray, "3"])
    adv, pos, scale = refused(Batch(adv=0.5, pos=np.zeros(3), scale=0.5), schema).problems
    assert adv.hint == "one row keeps its rows as batch[i:i+1]"
    assert pos.hint == scale.hint == ""  # one value for each row in place of three is as likely


def test_what_a_batch_becomes_is_no_union():
    with pytest.raises(DeclarationError, match=r"expected a single protocol or record, got the union ActBatch \| Cam"):
        extend(Batch(act=np.zeros(3)), ActBatch | Cam)


def test_hints_name_near_fields_only():
    batch = Batch(fields(obs=..., rew=..., obsv=np.zeros(N), completely_different=np.zeros(N)))
    hints = {problem.path: problem.hint for problem in refused(batch, RolloutBatchProtocol).problems}
    assert "did you mean 'obsv'?" in hints["obs"]
    assert "did you mean" not in hints["rew"]


def test_the_article_follows_the_sound():
    user, fqf = type("UserBatch", (ActBatch,), {}), type("FQFOutput", (ActBatch,), {})
    assert str(refused(Batch(), user)).startswith("batch is not a UserBatch ")
    assert str(refused(Batch(), fqf)).startswith("batch is not an FQFOutput ")


@pytest.mark.parametrize(
    "schema", [5, "RolloutBatch", int, Any, None, np.zeros(3), Batch(), [ActBatch], ActBatch | int, np.zeros], ids=str
)
def test_what_is_no_schema_is_a_declaration_error_whatever_it_is(schema: Any):
    with pytest.raises(DeclarationError, match="is not a schema"):
        validate(Batch(), schema)


def test_arguments_in_the_wrong_order_are_told_apart_without_values():
    with pytest.raises(
        DeclarationError, match=r"^Batch\(act\) is not a schema; a schema is a class.*, and it comes after the batch$"
    ):
        validate(ActBatch, Batch(act=[7.25]))  # type: ignore[call-overload]


def test_a_string_is_shown_as_a_string_so_that_the_refusal_makes_sense():
    with pytest.raises(DeclarationError, match="'ActBatch'"):
        validate(Batch(), "ActBatch")  # type: ignore[call-overload]


def test_none_alone_as_a_schema_never_ends_in_an_internal_error():
    for value in (None, 5, Batch()):
        try:
            assert validate(value, types.NoneType) is None
        except TypedBatchError:
            assert value is not None


@pytest.mark.parametrize("value", [{"act": [1]}, None, [Batch()], 5])
def test_extend_and_convert_of_what_is_no_batch_say_so(value: Any):
    for make in (extend, convert):
        with pytest.raises(TypedBatchError, match="Batch"):
            make(value, ActBatch)


Both = np.ndarray | torch.Tensor
K = TypeVar("K", covariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741


def processed(**changes: Any) -> Batch:
    """Return a rollout as ``process_fn`` returns it: arrays from the buffer, tensors from the networks."""
    made = {name: torch.zeros(N) for name in ("returns", "adv", "v_s", "logp_old")}
    return Batch(fields(**{**made, **changes}))


def hints(batch: object, schema: Any) -> set[str]:
    return {problem.hint for problem in refused(batch, schema).problems}


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


PAGES = Path(typedbatch.__file__).parent.parent / "docs" / "errors"
CODES = get_args(Code)
AUDIT_CODES = get_args(AuditCode)


def test_each_code_has_a_page_and_each_page_a_code():
    assert {f"{code.split()[0]}.md" for code in (*CODES, *AUDIT_CODES)} == {page.name for page in PAGES.glob("TB*.md")}


@pytest.mark.parametrize("code", CODES)
def test_a_page_has_the_code_as_its_title_and_shows_a_report_with_it(code: str):
    text = (PAGES / f"{code.split()[0]}.md").read_text()
    assert text.startswith(f"# {code}\n")
    (report, *_) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert "Traceback (most recent call last)" in report
    assert f"[{code}]" in report  # tests/test_docs.py runs it
    assert "## What to do" in text


@pytest.mark.parametrize("code", AUDIT_CODES)
def test_a_page_of_an_audit_shows_a_wrong_program_and_a_right_one(code: str):
    text = (PAGES / f"{code.split()[0]}.md").read_text()
    assert text.startswith(f"# {code}\n")
    assert "## Why it happens" in text
    assert "## What to do" in text
    if code != "TB513 check-failed":
        wrong, right = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert f"[{code}]" in wrong  # tests/test_docs.py runs both
        assert right.rstrip().endswith(".findings\n[]")


def test_codes_are_numbers_and_names_that_differ():
    every = [*CODES, *AUDIT_CODES]
    assert all(re.fullmatch(r"TB[1-5]\d\d [a-z]+(-[a-z]+)+", code) for code in every)
    assert len({code.split()[0] for code in every}) == len({code.split()[1] for code in every}) == len(every)
    assert every == sorted(every)
