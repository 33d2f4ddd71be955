"""Text of a report: the field it blames, its hint, and its layout."""

from __future__ import annotations

import types
from typing import (
    Any,
)

import numpy as np
import pytest
import torch
from jaxtyping import Float64
from torch import Tensor

from tests.validation.helpers import Array, Cam, N, fields, paths, record, refused
from typedbatch import (
    ActBatch,
    Batch,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    convert,
    extend,
    validate,
)
from typedbatch.errors import DeclarationError, TypedBatchError


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


def test_a_row_is_told_how_to_stay_a_batch():
    (problem,) = refused(Batch(act=np.zeros(3))[0], ActBatch).problems
    assert problem.hint == "one row keeps its rows as batch[i:i+1]"


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
