"""Rules on the values of fields, and those of token batches."""

from __future__ import annotations

import functools
import math
from typing import Annotated, Any, Protocol

import annotated_types as at
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from tests.validation.helpers import Array, record
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    Rule,
    SchemaError,
    Sorted,
    Unique,
    checking,
    conforms,
    rule,
    validate,
)
from typedbatch.errors import DeclarationError
from typedbatch.rows import groups
from typedbatch.rules import groups_centered, groups_ordered, has_counted_token, logp_aligned, mask_matches


def kind_of_value(value: object) -> str:
    """An id that is the same in every process."""
    return type(value).__name__


def codes(batch: Any, schema: Any) -> list[str]:
    """The problems at the level of values; the structure is right."""
    assert conforms(batch, schema)
    validate(batch, schema)  # by default values are not looked at
    try:
        validate(batch, schema, level="values")
    except SchemaError as error:
        return [f"{problem.path} {problem.code[:5]}" for problem in error.problems]
    return []


def holds(metadata: Any, values: Any) -> bool:
    """The verdict for an array and for a tensor, which must be the same."""
    verdicts = [
        not codes(Batch(x=np.asarray(values)), record(x=Annotated[Array, metadata])),
        not codes(Batch(x=torch.as_tensor(np.asarray(values))), record(x=Annotated[Tensor, metadata])),
    ]
    assert verdicts[0] == verdicts[1]
    return verdicts[0]


@pytest.mark.parametrize(
    ("metadata", "good", "bad"),
    [
        (at.Ge(0), [0, 1], [0, -1]),
        (at.Gt(0), [1, 2], [0, 1]),
        (at.Le(1), [1, 0], [1, 2]),
        (at.Lt(1), [0, -1], [1, 0]),
        (at.Interval(ge=0, lt=1), [0.0, 0.5], [0.0, 1.0]),
        (at.MultipleOf(3), [3, 6, 0], [3, 4]),
        (at.MinLen(2), [1, 2], [1]),
        (at.MaxLen(2), [1, 2], [1, 2, 3]),
        (at.Len(1, 2), [1], [1, 2, 3]),
        (at.Predicate(math.isfinite), [1.0, 2.0], [1.0, math.inf]),
        (at.Predicate(lambda x: x != 3), [1, 2], [1, 3]),
        (Finite, [1.0, -2.0], [1.0, math.nan]),
        (Finite, [1, 2], [1.0, math.inf]),
        (Sorted, [1, 2, 2], [2, 1]),
        (Unique, [2, 1, 3], [1, 2, 1]),
        (Unique, [[1, 2], [2, 1]], [[1, 2], [1, 2]]),
        (Rule("a row that sums to one", lambda x: abs(x.sum(1) - 1) < 1e-6), [[0.5, 0.5]], [[0.5, 0.6]]),
    ],
    ids=kind_of_value,
)
def test_rules_on_one_field(metadata: Any, good: Any, bad: Any):
    assert holds(metadata, good)
    assert not holds(metadata, bad)


@pytest.mark.parametrize("metadata", [at.Ge(0), Finite, Sorted, Unique, at.Predicate(math.isfinite)], ids=kind_of_value)
def test_no_rows_break_no_rule(metadata: Any):
    assert holds(metadata, np.zeros((0, 2)))


def test_nan_is_within_no_bound():
    assert not holds(at.Ge(0), [math.nan])
    assert not holds(at.Le(0), [math.nan])


def test_notes_that_are_no_rules_are_left_alone():
    assert holds("in metres", [1, 2])
    assert holds(at.Unit("m"), [1, 2])


def test_rules_reach_into_nested_batches_unions_and_dicts():
    inner = record(x=Annotated[Array, at.Ge(0)])
    schema = record(a=inner, b=inner | None, c=dict[str, Annotated[Array, at.Ge(0)]], d=Annotated[Batch, Finite])
    batch = Batch(a=Batch(x=[-1]), b=Batch(x=[-1]), c=Batch(p=[1], q=[-1]), d=Batch(e=Batch(f=[math.nan]), g=[1.0]))
    assert codes(batch, schema) == ["a.x TB401", "b.x TB401", "c.q TB401", "d.e.f TB401"]
    assert codes(Batch(a=Batch(x=[1]), b=None, c=Batch(), d=Batch()), schema) == []


def test_each_alternative_of_a_union_has_its_own_rules():
    schema = record(x=Annotated[Float[np.ndarray, "N"], at.Le(1)] | Annotated[Int[np.ndarray, "N"], at.Ge(5)] | None)
    assert codes(Batch(x=[0.5]), schema) == codes(Batch(x=[6]), schema) == codes(Batch(x=None), schema) == []
    assert codes(Batch(x=[1.5]), schema) == codes(Batch(x=[4]), schema) == ["x TB401"]
    both = record(x=Annotated[Array | Tensor, Finite])
    assert codes(Batch(x=torch.tensor([math.nan])), both) == codes(Batch(x=[math.nan]), both) == ["x TB401"]


class Rollout(BatchRecord):
    act: Array
    rew: Annotated[Array, Finite]

    @rule("an action of 0 has no reward")
    def idle(self) -> Array:
        return (self.act != 0) | (self.rew == 0)

    @rule("something happens")
    def busy(self) -> bool:
        return self.total() > 0

    def total(self) -> float:
        return float(abs(self.act).sum())


class Quiet(Rollout):
    done: Array

    def busy(self) -> bool:  # defined again without the mark: no rule any more
        return False

    @rule("an episode ends")
    def ends(self) -> Array:
        return self.done.any()  # a numpy bool is one answer


def test_rules_across_fields_are_inherited_and_may_be_replaced():
    assert codes(Batch(act=[0, 1], rew=[0.0, 1.0]), Rollout) == []
    assert codes(Batch(act=[0, 0], rew=[1.0, 0.0]), Rollout) == [" TB402", " TB402"]
    assert codes(Batch(act=[0, 0], rew=[1.0, 0.0], done=[False, True]), Quiet) == [" TB402"]
    assert codes(Batch(act=[1, 0], rew=[1.0, 0.0], done=[False, False]), Quiet) == [" TB402"]


def test_rules_of_a_nested_record_are_asked_of_the_nested_batch():
    schema = record(inner=Rollout, many=dict[str, Rollout])
    good, bad = Batch(act=[1], rew=[1.0]), Batch(act=[0], rew=[0.0])
    assert codes(Batch(inner=bad, many=Batch(one=good, two=Batch(bad))), schema) == ["inner TB402", "many.two TB402"]


def test_a_rule_may_be_a_function_that_several_records_name():
    def paid(batch: Any) -> Any:
        return batch.rew > 0

    class Strict(BatchRecord):
        rew: Array
        positive = rule(paid, "each step is paid")
        total = rule(lambda batch: batch.rew.sum() < 5, "rewards sum to less than 5")

    class Other(BatchRecord):
        rew: Array
        positive = rule(functools.partial(paid), "rewards are positive")

    assert codes(Batch(rew=[1.0, 2.0]), Strict) == []
    assert codes(Batch(rew=[0.0, 9.0]), Strict) == [" TB402", " TB402"]
    with pytest.raises(SchemaError, match=r"each step is paid.*\n +the rule Strict\.positive"):
        validate(Batch(rew=[0.0, 1.0]), Strict, level="values")
    with pytest.raises(SchemaError, match="rewards are positive"):
        validate(Batch(rew=[0.0, 1.0]), Other, level="values")


@pytest.mark.parametrize(
    "given", [("words", lambda batch: True), (lambda batch: True, 3), (int, "words"), (3, "words")]
)
def test_a_rule_of_a_function_takes_the_function_then_the_words(given: Any):
    with pytest.raises(DeclarationError, match=r"rule\(\) takes a function of the batch, then words, got "):
        rule(*given)


def test_rules_in_a_protocol():
    class Paid(BatchProtocol, Protocol):
        @property
        def rew(self) -> Annotated[Array, at.Ge(0)]: ...

        @rule("there is a reward")
        def some(self) -> bool:
            return bool(self.rew.any())

    assert codes(Batch(rew=[1.0]), Paid) == []
    assert codes(Batch(rew=[0.0]), Paid) == [" TB402"]
    assert codes(Batch(rew=[-1.0]), Paid) == ["rew TB401"]


def test_a_rule_that_raises_is_a_problem_of_its_own():
    schema = record(x=Annotated[Array, at.Predicate(lambda x: 1 // 0), Finite])
    assert codes(Batch(x=[1.0]), schema) == ["x TB403"]
    assert codes(Batch(x=np.array(["a", None])), record(x=Annotated[NDArray[np.object_], Finite])) == ["x TB403"]


def test_rules_are_asked_only_when_the_structure_is_right():
    with pytest.raises(SchemaError) as caught:
        validate(Batch(act=torch.zeros(1), rew=[math.nan]), Rollout, level="values")
    assert [problem.code[:5] for problem in caught.value.problems] == ["TB202"]


def test_of_two_schemas_the_one_whose_values_fit_is_taken():
    low, high = record(x=Annotated[Array, at.Lt(0)]), record(x=Annotated[Array, at.Gt(0)])
    with checking("values"):
        assert type(validate(Batch(x=[1]), low | high)) is high
        assert type(validate(Batch(x=[-1]), low | high)) is low


def test_small_integers_of_torch_are_compared_as_they_are():
    """Torch turns the limit into the tensor's dtype, where 256 is 0."""
    schema = record(x=Annotated[Tensor, at.Lt(256), at.Ge(-1)])
    assert codes(Batch(x=torch.tensor([0, 255], dtype=torch.uint8)), schema) == []
    assert codes(Batch(x=torch.tensor([0, 255], dtype=torch.uint8)), record(x=Annotated[Tensor, at.Lt(255)])) == [
        "x TB401"
    ]


def test_rules_on_a_batch_are_for_its_numbers():
    schema = record(x=Annotated[Batch, Finite])
    assert codes(Batch(x=Batch(a=[1.0], reserved=Batch(), none=None, text="a")), schema) == []


def test_a_predicate_on_tensors_that_require_grad():
    schema = record(x=Annotated[Tensor, at.Predicate(math.isfinite)])
    assert codes(Batch(x=torch.ones(2).requires_grad_()), schema) == []
    assert codes(Batch(x=torch.tensor([[1.0], [math.inf]])), schema) == ["x TB401"]


@pytest.mark.parametrize("answer", [[True, False], (False,), np.array([True, False]), torch.tensor([False])])
def test_answers_for_each_row_may_come_in_a_list(answer: Any):
    class Own(BatchRecord):
        x: Array

        @rule("so")
        def so(self) -> Any:
            return answer

    assert codes(Batch(x=[1.0]), Own) == [" TB402"]


@pytest.mark.parametrize("answer", ["yes", NotImplemented, None, (x for x in [True])])
def test_what_is_no_answer_is_a_rule_that_fails(answer: Any):
    class Own(BatchRecord):
        x: Array

        @rule("so")
        def so(self) -> Any:
            return answer

    assert codes(Batch(x=[1.0]), Own) == [" TB403"]


@pytest.mark.parametrize("wrapper", [staticmethod, classmethod, property])
def test_a_rule_is_a_plain_method(wrapper: Any):
    for order in (lambda f: wrapper(rule("so")(f)), lambda f: rule("so")(wrapper(f))):
        try:
            type("Own", (BatchRecord,), {"so": order(lambda self: True)})
        except DeclarationError as error:
            assert "plain method" in str(error)  # noqa: PT017  # a property above the mark is none, and no rule either


def test_of_nested_records_that_differ_in_sizes_the_right_ones_rules_are_asked():
    one, two = record(a=Float[np.ndarray, "N"]), record(a=Annotated[Float[np.ndarray, "m"], at.Ge(0)])
    schema = record(x=Array, p=one | two)
    assert codes(Batch(x=[0.0] * 3, p=Batch(a=[-1.0] * 3)), schema) == []
    assert codes(Batch(x=[0.0] * 3, p=Batch(a=[-1.0] * 4)), schema) == ["p.a TB401"]
    three = record(x=Annotated[Float[np.ndarray, "N 3"], at.Ge(0)] | Float[np.ndarray, "N 4"])
    assert codes(Batch(x=-np.ones((5, 4))), three) == []
    assert codes(Batch(x=-np.ones((5, 3))), three) == ["x TB401"]


ROWS, TOKENS = 8, 12


class Ready(BatchRecord):
    mask: Any
    length: Any
    adv: Any
    uid: Any
    old: Any
    sampled: Any = None

    lengths = mask_matches("mask", "length")
    counts = has_counted_token("mask", each_row=True)
    centred = groups_centered("adv", "uid", mask="mask")
    aligned = logp_aligned("old", "sampled", mask="mask")


def data() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    mask = np.arange(TOKENS) < rng.integers(2, TOKENS + 1, ROWS)[:, None]
    score = rng.normal(size=(ROWS // 2, 2))
    old = -rng.exponential(size=(ROWS, TOKENS))
    return {
        "mask": mask, "length": mask.sum(1), "adv": (score - score.mean(1, keepdims=True)).reshape(-1)[:, None] * mask,
        "uid": np.array([f"prompt {row // 2}" for row in range(ROWS)], object), "old": old,
        "sampled": old + 0.02 * rng.normal(size=old.shape),
    }  # fmt: skip


def masked(row: int) -> dict[str, Array]:
    mask = data()["mask"].copy()
    mask[row] = False
    return {"mask": mask, "length": mask.sum(1)}


@pytest.mark.parametrize("kind", ["numpy", "torch", "bfloat16 masks"])
@pytest.mark.parametrize(
    ("changes", "says", "hint"),
    [
        ({}, "", ""),
        ({"sampled": None}, "", ""),
        ({"sampled": -np.random.default_rng(1).exponential(size=(ROWS, TOKENS))}, "", ""),
        (
            {"length": data()["length"] + (np.arange(ROWS) % 3 == 0)},
            "not so in 3 of 8 rows: each row of mask has length tokens, the first at [0]",
            "the rule Ready.lengths  rows 0, 3, 6",
        ),
        (
            masked(3),
            "not so in 1 of 8 rows: mask counts a token in each row, the first at [3]",
            "the rule Ready.counts",
        ),
        (
            {"adv": data()["adv"] + (data()["uid"] == "prompt 2")[:, None]},
            "not so in 2 of 8 rows: adv has mean 0 in each group of uid, the first at [4]",
            "the rule Ready.centred  rows 4, 5",
        ),
        *(
            (
                {"sampled": np.roll(data()["old"], by, axis=1)},
                "not so in 8 of 8 rows: old and sampled are of the same tokens, the first at [0]",
                "the rule Ready.aligned  rows 0, 1, 2, 3, 4, 5, 6, 7",
            )
            for by in (1, -1)
        ),
    ],
    ids=["right", "absent", "another policy", "lengths", "no token", "off centre", "shifted", "shifted back"],
)
def test_each_rule(changes: dict[str, Any], says: str, hint: str, kind: str):
    batch = Batch({**data(), **changes})
    if kind != "numpy":
        batch = batch.to_torch()
    if kind == "bfloat16 masks":
        batch.mask = batch.mask.to(torch.bfloat16)
    if not says:
        validate(batch, Ready, level="values")
        return
    with pytest.raises(SchemaError) as caught:
        validate(batch, Ready, level="values")
    assert [(problem.got, problem.hint) for problem in caught.value.problems] == [(says, hint)]


def test_a_batch_may_leave_samples_out_of_the_loss():
    leaves_out = has_counted_token("mask")
    assert leaves_out(Batch(mask=masked(3)["mask"]))
    assert not leaves_out(Batch(mask=np.zeros((2, 3))))


def test_groups_that_are_not_judged():
    centred = groups_centered("adv", "uid", mask="mask")
    alone = Batch(adv=[1.0, 0.5, -0.5], uid=[0, 1, 1], mask=[1, 1, 1])
    assert centred(alone).tolist() == [True, True, True]
    without = Batch(adv=[[1.0], [0.0]], uid=[0, 0], mask=[[1], [0]])
    assert centred(without).tolist() == [True, True]


def test_advantages_of_rows_in_another_order():
    ordered = groups_ordered("adv", "rew", "uid", mask="mask")
    rew, uid = np.array([1.0, 0.0, 0.5, 0.5, 2.0]), np.array(["a", "b", "a", "b", "a"])
    mask = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 1]])
    adv = np.array([-0.2, -0.3, -0.7, 0.3, 0.8])[:, None] * mask
    right = Batch(adv=adv, rew=rew, uid=uid, mask=mask)
    assert ordered(right).all()
    assert ordered(right.to_torch()).all()
    assert ordered(Batch(right, adv=np.zeros((5, 2)), rew=np.ones(5))).all()
    swapped = Batch(right, adv=adv[[4, 1, 2, 3, 0]])  # of rows 0 and 4, which are both of group "a"
    assert ordered(Batch(swapped, mask=np.ones((5, 2)))).tolist() == [False, True, True, True, False]
    unequal = Batch(right, rew=np.array([1.0, 0.5, 0.5, 0.5, 2.0]))
    assert ordered(unequal).tolist() == [True, False, True, False, True]
    out_of_loss = Batch(swapped, mask=mask * np.array([[1], [1], [1], [1], [0]]))
    assert ordered(out_of_loss).all()
    assert ordered(Batch(right)[:0]).tolist() == []


def test_values_that_differ_by_rounding_or_are_not_finite_are_in_order():
    ordered = groups_ordered("adv", "rew", "uid")
    batch = Batch(uid=np.zeros(3, int), rew=np.array([1, 1 + 1e-9, 2]), adv=np.array([-0.5, -0.5, 1.0]))
    assert ordered(batch).all()
    assert ordered(Batch(batch, rew=np.array([np.nan, 1.0, 2.0]))).all()
    assert ordered(Batch(batch, adv=np.array([0.0, 0.0, 0.0]))).tolist() == [True, False, False]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-10, 10).map(lambda x: round(x, 2))), min_size=1, max_size=20))
def test_advantages_of_groups_are_in_the_order_of_their_rewards(rows: list[tuple[int, float]]):
    batch = Batch(uid=np.array([uid for uid, _ in rows]), rew=np.array([rew for _, rew in rows]))
    by_uid = groups(batch, "uid")
    batch.adv = (batch.rew - by_uid.mean(batch.rew)) / (by_uid.std(batch.rew) + 1e-6)
    assert groups_ordered("adv", "rew", "uid")(batch).all()


def test_one_row_that_is_shifted():
    rows = -np.random.default_rng(2).exponential(size=(ROWS, 2 * TOKENS))
    other = rows.copy()
    other[5] = np.roll(rows[5], 1)
    assert logp_aligned("a", "b")(Batch(a=rows, b=other)).tolist() == [row != 5 for row in range(ROWS)]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_data_of_other_policies_is_not_taken_for_shifted(seed: int, apart: float):
    rng = np.random.default_rng(seed)
    old = -rng.exponential(size=(4, 32))
    assert logp_aligned("a", "b")(Batch(a=old, b=old + apart * rng.normal(size=old.shape))).all()


def test_the_rules_hold_for_a_batch_without_rows():
    none = np.zeros(0, int)
    empty = Ready(mask=np.zeros((0, 3)), length=none, adv=np.zeros((0, 3)), uid=none, old=np.zeros((0, 3)))
    assert validate(empty, Ready, level="values") is empty
