"""Batches made from declarations, the same each time: what they hold, and that their declarations accept them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import pytest
import torch
from annotated_types import Ge, Gt, Interval, Le, Lt, MultipleOf, Predicate
from hypothesis import HealthCheck, given, settings
from jaxtyping import Bool, Float, Float32, Int, Shaped, UInt8
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution, Gamma, Independent, Normal

import typedbatch
from typedbatch import Batch, BatchProtocol, BatchRecord, RolloutBatch, RolloutBatchProtocol, SchemaError, validate
from typedbatch.errors import DeclarationError, SettingError
from typedbatch.posttraining.rules import ends_at_the_edge, logp_close, logp_of_mask, same_in_groups, sampled_by, within
from typedbatch.rules import (
    Finite,
    Sorted,
    Unique,
    groups_centered,
    groups_ordered,
    has_counted_token,
    logp_aligned,
    mask_matches,
    rule,
)
from typedbatch.testing import batches, example

Array = np.ndarray[Any, Any]
SCHEMAS = [
    value
    for value in (getattr(typedbatch, name) for name in sorted(typedbatch.__all__))
    if isinstance(value, type) and value.__module__ in ("typedbatch.protocols", "typedbatch.records")
]


class Cams(BatchRecord):
    left: UInt8[np.ndarray, "N H W"]
    right: UInt8[np.ndarray, "N H W"]


class Pixels(BatchRecord):
    cams: Cams
    obs: Float32[np.ndarray, "N *obs"]
    obs_next: Float32[np.ndarray, "N *obs"]
    both: Float[Tensor, "N 2*K"]
    one: Float[Tensor, "N K 1"]
    any_size: Int[np.ndarray, "N _"]
    rest: Shaped[np.ndarray, "N ..."]
    done: Bool[Tensor, "N"]
    mode: Literal["train", "eval"]
    note: str = "x"
    nothing: Array | None = None


class Node(BatchRecord):
    value: Array
    child: Node | None = None


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_every_schema_of_the_library(schema):
    made = example(schema)
    validate(made, schema, level="values")
    assert made == example(schema)


@pytest.mark.parametrize("schema", [RolloutBatchProtocol[Tensor], RolloutBatch[Tensor]])
def test_parameters_count(schema):
    made = example(schema, N=3)
    assert isinstance(made.obs, Tensor)
    assert len(made) == 3


def test_a_protocol_and_a_record():
    assert type(example(RolloutBatchProtocol)) is Batch
    made = example(RolloutBatch, N=8)
    assert type(made) is RolloutBatch
    assert len(made) == 8
    assert made.rew.tolist() == pytest.approx([i / 7 for i in range(8)])
    assert not made.terminated.any()
    assert example(RolloutBatch, N=0).obs.shape == (0,)


def test_each_name_has_one_size():
    made = example(Pixels, N=5, H=8, K=3, obs=(2, 4))
    assert made.cams.left.shape == made.cams.right.shape == (5, 8, 3)
    assert made.obs.shape == made.obs_next.shape == (5, 2, 4)
    assert made.both.shape == (5, 6)
    assert made.one.shape == (5, 3, 1)
    assert made.any_size.shape == (5, 3)
    assert made.rest.shape == (5,)


def test_sizes_that_are_not_given():
    made = example(Pixels)
    assert made.cams.left.shape == (4, 3, 3)
    assert made.obs.shape == (4,)


def test_dtypes_and_kinds():
    made = example(Pixels)
    assert [made.cams.left.dtype, made.obs.dtype, made.any_size.dtype] == [np.uint8, np.float32, np.int64]
    assert [made.both.dtype, made.done.dtype] == [torch.float32, torch.bool]
    assert (made.mode, made.note) == ("train", "text")
    assert isinstance(made.nothing, np.ndarray)


def test_a_schema_that_holds_itself_ends():
    made, depth = example(Node), 0
    while made.child is not None:
        made, depth = made.child, depth + 1
    assert 0 < depth < 10


@pytest.mark.parametrize(
    ("hint", "check"),
    [
        (NDArray[np.object_], lambda value: value.dtype == object and len(value) == 4),
        (NDArray[np.datetime64], lambda value: value.dtype.kind == "M"),
        (np.ma.MaskedArray, lambda value: isinstance(value, np.ma.MaskedArray)),
        (np.floating, lambda value: value.shape == () and value.dtype == np.float32),
        (np.bool_, lambda value: value.shape == () and value.dtype == bool),
        (dict[str, Array], lambda value: list(value.keys()) == ["a"]),
        (Batch, lambda value: value == Batch()),
        (Any, lambda value: value.shape == (4,)),
        (object, lambda value: value.shape == (4,)),
        (str, lambda value: value == "text"),
        (None, lambda value: value is None),
        (Array | None, lambda value: isinstance(value, np.ndarray)),
        (Distribution, lambda value: value.batch_shape == (4,)),
        (Normal, lambda value: isinstance(value, Normal)),
        (Independent, lambda value: isinstance(value, Independent)),
        (np.float32, lambda value: value.dtype == np.float32 and value.shape == ()),
    ],
)
def test_kinds_of_fields(hint, check):
    schema: Any = type("Odd", (BatchRecord,), {"__annotations__": {"it": hint, "rows": Array}})
    assert check(example(schema)["it"])


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[Array, Finite], Annotated[Array, Sorted, Unique], Annotated[Array, Ge(5), Le(7)],
        Annotated[Array, Gt(5), Lt(6)], Annotated[Array, Interval(ge=-3, lt=-2)],
        Annotated[Int[np.ndarray, "N"], Ge(200)], Annotated[Int[np.ndarray, "N"], Gt(200), MultipleOf(1)],
        Annotated[Array, MultipleOf(7)], Annotated[Array, Predicate(lambda x: x >= 0)],
        Annotated[Float[Tensor, "N"], Le(-4)], Annotated[UInt8[np.ndarray, "N"], Lt(1)],
    ],
)  # fmt: skip
def test_values_fulfil_the_rules(hint):
    schema: Any = type("Ruled", (BatchRecord,), {"__annotations__": {"it": hint}})
    validate(example(schema, N=5), schema, level="values")


def test_rules_that_nothing_simple_fulfils():
    class Odd(BatchRecord):
        it: Annotated[Array, Predicate(lambda x: x == 0.123)]

    with pytest.raises(
        SettingError, match=r"field 'it': no values were found that are .*; pass a value: fields=\{'it': ...\}"
    ):
        example(Odd)
    assert example(Odd, fields={"it": np.full(4, 0.123)}).it[0] == 0.123


class Step(TypedDict):
    step: int


SHIPPED = {
    "mask_matches": mask_matches("mask", "length"),
    "has_counted_token": has_counted_token("mask"),
    "has_counted_token in each row": has_counted_token("mask", each_row=True),
    "groups_centered": groups_centered("adv", "uid"),
    "groups_centered with a mask": groups_centered("adv", "uid", mask="mask"),
    "groups_ordered": groups_ordered("adv", "reward", "uid"),
    "groups_ordered by text, one number per row": groups_ordered("length", "reward", "text"),
    "logp_aligned": logp_aligned("logp", "logp_old", mask="mask"),
    "within": within("mask", "outer"),
    "ends_at_the_edge": ends_at_the_edge("mask"),
    "logp_of_mask": logp_of_mask("logp", "mask"),
    "logp_close": logp_close("logp", "logp_old", mask="mask"),
    "sampled_by": sampled_by(),
    "same_in_groups": same_in_groups("reward"),
    "same_in_groups of objects": same_in_groups("text"),
}


@pytest.mark.parametrize("kind", [np.ndarray, Tensor])
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rules(name, kind):
    shapes = {"mask": Bool[kind, "N R"], "outer": Bool[kind, "N R"], "adv": Float[kind, "N R"], "uid": Int[kind, "N"],
              "length": Int[kind, "N"], "reward": Float[kind, "N"], "text": NDArray[np.object_], "meta": Step,
              "logp": Float[kind, "N R"], "logp_old": Float[kind, "N R"], "policy_step": Int[kind, "N"]}  # fmt: skip
    schema: Any = type("Ruled", (BatchRecord,), {"__annotations__": shapes, "law": SHIPPED[name]})
    for sizes in ({}, {"N": 1, "R": 9}, {"N": 12, "R": 40}):
        validate(example(schema, **sizes), schema, level="values")

    # Rules refuse some of what is drawn, and in a few draws that may be most.
    @settings(max_examples=10, suppress_health_check=[HealthCheck.filter_too_much])
    @given(batches(schema))
    def accepted(batch):
        validate(batch, schema, level="values")

    accepted()


def test_rules_across_fields_are_asked_too():
    class Two(BatchRecord):
        a: Array
        b: Array

        @rule("a is less than b")
        def in_order(self) -> Any:
            return self.a < self.b

    with pytest.raises(SchemaError, match="a is less than b"):
        example(Two)
    assert example(Two, fields={"b": np.full(4, 9.0)}).b[0] == 9


def test_fields_that_are_given():
    obs = np.ones((4, 7))
    left = np.ones((4, 3, 3), np.uint8)
    assert example(RolloutBatchProtocol, fields={"obs": obs}).obs is obs
    assert example(Pixels, fields={"cams.left": left}).cams.left is left
    with pytest.raises(SchemaError, match=r"batch\.obs +N is 5"):
        example(RolloutBatchProtocol, fields={"obs": np.zeros(5)})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: example(Pixels, M=3), "Pixels has no dimension 'M'; it has "),
        (lambda: example(Pixels, HH=3), "did you mean 'H'"),
        (lambda: example(Node, K=3), "Node has no dimension 'K'; it has N"),
        (lambda: example(Pixels, N=-1), "the size of 'N' must be a whole number >= 0, got -1"),
        (lambda: example(Pixels, N="5"), "the size of 'N' must be a whole number >= 0, got '5'"),
        (lambda: example(Pixels, obs=3), "the sizes of 'obs' must be a tuple of whole numbers >= 0, got 3"),
        (lambda: example(Pixels, fields={"ob": 1}), "Pixels has no field 'ob'; did you mean 'obs'"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises(SettingError, match=text):
        call()


def test_what_nothing_is_known_of():
    class Rare(BatchRecord):
        dist: Gamma

    class Strict:
        def __init__(self, needed: int) -> None: ...

    class Held(BatchRecord):
        it: Strict

    globals()["Strict"] = Strict
    with pytest.raises(
        SettingError, match=r"field 'dist': no example is known of a Gamma; pass a value: fields=\{'dist': ...\}"
    ):
        example(Rare)
    with pytest.raises(SettingError, match=r"field 'it': Strict\(\) failed"):
        example(Held)
    with pytest.raises(DeclarationError):
        example(int)


def test_a_dimension_without_a_size():
    class Half(BatchRecord):
        of: Float[np.ndarray, "K"]
        it: Float[np.ndarray, "N K//2 K/2"]

    assert example(Half, K=4).it.shape == (4, 2, 2)
    with pytest.raises(SettingError, match=r"the dimension 'K/2' has no valid size for K=3; pass other sizes"):
        example(Half, K=3)


def test_protocols_of_ones_own():
    class Mine(BatchProtocol):
        goal: Float32[np.ndarray, "N goal_dim"]

    assert example(Mine, goal_dim=2).goal.shape == (4, 2)
