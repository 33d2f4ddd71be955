"""Whole reports, one for each kind of problem. Their text is part of the library: where, what, and what to do."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pytest
import torch
from annotated_types import Ge
from jaxtyping import Float, Float32, Int, Shaped
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from tests.validation.helpers import Array, fields, record, refused
from typedbatch import (
    Batch,
    BatchRecord,
    Finite,
    NoGradient,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    extend,
    rule,
    validate,
)
from typedbatch._names import nearest
from typedbatch.errors import Code
from typedbatch.naming import NAMES, rename


class Target(BatchRecord):
    obs: Tensor
    returns: Annotated[Tensor, NoGradient]


class Camera(BatchRecord):
    image: Float32[np.ndarray, "N 3 size size"]
    mode: Literal["day", "night"]


class Step(BatchRecord):
    obs: Camera
    act: Int[np.ndarray, "N"]
    rew: Annotated[NDArray[np.float32], Finite, Ge(-1)]
    mask: Shaped[np.ndarray, "N 2*size"] | None = None

    @rule("no reward for action 0")
    def nothing_for_nothing(self) -> Array:
        return (self.act != 0) | (self.rew == 0)

    @rule("rewards are given")
    def given(self) -> bool:
        return bool(self.rew.any())


def step(**changes: Any) -> Batch:
    obs = Batch(image=np.zeros((4, 3, 8, 8), np.float32), mode="day")
    base = {"obs": obs, "act": np.arange(4), "rew": np.array([0, 1, 2, 3], np.float32)}
    return Batch({name: value for name, value in {**base, **changes}.items() if value is not ...})


def report(batch: Any, schema: Any, level: Any = None) -> list[str]:
    """The lines below the head of the report, which says where."""
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema, level=level)
    lines = str(caught.value).splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("  batch")), 0)
    return [re.sub(r"\S+/(\w+\.py):\d+", r"\1:LINE", line).removeprefix("  ") for line in lines[first:]]


REPORTS: dict[str, tuple[Any, Any, str, list[str]]] = {
    "missing": (
        step(act=..., actions=np.arange(4)), Step, "structure",
        [
            "batch.act  missing, expected a numpy array of signed integer type, shape (N,)",
            "           [TB101 missing-field]",
            "           did you mean 'actions'?  (declared in Step, test_messages.py:LINE)",
        ],
    ),
    "missing, and nothing like it": (
        step(act=...), Step, "structure",
        [
            "batch.act  missing, expected a numpy array of signed integer type, shape (N,)",
            "           [TB101 missing-field]",
            "           declared in Step, test_messages.py:LINE",
        ],
    ),
    "no batch": (
        {"obs": 1},
        Step,
        "structure",
        ["batch  dict, expected a Batch  [TB102 not-a-batch]", "       wrap it: Batch(data)"],
    ),
    "reserved": (
        step(obs=Batch(), rew=Batch()), Step, "structure",
        [
            "batch.obs  reserved, an empty Batch(), expected Camera  [TB103 reserved-field]",
            "           give it its value before it is checked",
            "batch.rew  reserved, an empty Batch(), expected a numpy array of float32  [TB103 reserved-field]",
        ],
    ),
    "dtype": (
        step(act=np.zeros(4, np.float32), rew=np.zeros(4)), Step, "structure",
        [
            "batch.act  dtype float32, expected a signed integer type  [TB201 wrong-dtype]",
            "batch.rew  dtype float64, expected float32  [TB201 wrong-dtype]",
            "           batch.rew.astype('float32')",
        ],
    ),
    "kind": (
        step(act=torch.arange(4), mask="all"), Step, "structure",
        [
            "batch.act   torch i64[4], expected a numpy array of signed integer type, shape (N,)",
            "            [TB202 wrong-kind]",
            "            it is of the torch kind; convert(batch, Step) changes that",
            "batch.mask  str, expected a numpy array, shape (N, 2*size) or None  [TB202 wrong-kind]",
        ],
    ),
    "choice": (
        step(obs=Batch(image=np.zeros((4, 3, 8, 8), np.float32), mode="secret")),
        Step,
        "structure",
        ["batch.obs.mode  str of another value, expected one of 'day', 'night'  [TB203 wrong-choice]"],
    ),
    "gradient": (
        Target(obs=torch.zeros(4), returns=torch.zeros(4, requires_grad=True)), Target, "structure",
        [
            "batch.returns  torch f32[4] that requires a gradient, expected a tensor without a gradient",
            "               [TB204 unwanted-gradient]",
            "               detach() it, or compute it under torch.no_grad(), since a loss must not change it",
        ],
    ),
    "no rows": (
        step(rew=np.array(1, np.float32)), Step, "structure",
        [
            "batch.rew  a scalar f32[], expected one value per row  [TB301 no-rows]",
            "           one row keeps its rows as batch[i:i+1]",
        ],
    ),
    "conflict": (
        step(act=np.arange(3)),
        Step,
        "structure",
        ["batch.act  N is 3 here, but 4 in obs.image, rew  [TB302 dimension-conflict]"],
    ),
    "tie": (
        Batch(a=np.zeros(3), b=np.zeros(4)), record(a=Array, b=Array), "structure",
        [
            "batch.a  N is 3 here, but 4 in b  [TB302 dimension-conflict]",
            "batch.b  N is 4 here, but 3 in a  [TB302 dimension-conflict]",
        ],
    ),
    "one array, two sizes": (
        step(obs=Batch(image=np.zeros((4, 3, 8, 9), np.float32), mode="day")), Step, "structure",
        ["batch.obs.image  size is both 8 and 9 here  [TB302 dimension-conflict]"],
    ),
    "several sizes": (
        Batch(obs=np.zeros((2, 4)), obs_next=np.zeros((2, 5)), far=np.zeros((2, 4))),
        record(**dict.fromkeys(("obs", "obs_next", "far"), Shaped[np.ndarray, "N *obs"])),
        "structure",
        ["batch.obs_next  *obs is (5,) here, but (4,) in obs, far  [TB302 dimension-conflict]"],
    ),
    "rank": (
        step(act=np.zeros((4, 1), int)), Step, "structure",
        ["batch.act  shape (4, 1), expected shape (N,)  [TB303 wrong-shape]"],
    ),
    "fixed size": (
        step(obs=Batch(image=np.zeros((4, 1, 8, 8), np.float32), mode="day")),
        Step,
        "structure",
        ["batch.obs.image  shape (4, 1, 8, 8), expected shape (N, 3, size, size)  [TB303 wrong-shape]"],
    ),
    "computed": (
        step(mask=np.zeros((4, 8), bool)),
        Step,
        "structure",
        ["batch.mask  a size of 8, expected 2*size = 16, as size is 8  [TB304 wrong-size]"],
    ),
    "values": (
        step(rew=np.array([0, np.nan, -2, -3], np.float32)), Step, "values",
        [
            "batch.rew  1 of 4 values is not finite, the first at [1]  [TB401 wrong-values]",
            "batch.rew  3 of 4 values are not >= -1, the first at [1]  [TB401 wrong-values]",
        ],
    ),
    "rows": (
        step(rew=np.array([1, 0, 0, 0], np.float32)), Step, "values",
        [
            "batch  not so in 1 of 4 rows: no reward for action 0, the first at [0]  [TB402 broken-rule]",
            "       the rule Step.nothing_for_nothing",
        ],
    ),
    "the batch": (
        step(rew=np.zeros(4, np.float32)),
        Step,
        "values",
        ["batch  not so: rewards are given  [TB402 broken-rule]", "       the rule Step.given"],
    ),
    "objects for numbers": (
        Batch(x=[[0.0, 0.0], [0.1]]), record(x=Array), "structure",
        [
            "batch.x  dtype object, expected numbers or text  [TB201 wrong-dtype]",
            "         Ragged[...] declares sequences of different lengths, NDArray[np.object_] or Column[...] objects",
        ],
    ),
    "rule raised": (
        Batch(x=np.array([None, 1])), record(x=Annotated[NDArray[np.object_], Ge(0)]), "values",
        [
            "batch.x  >= 0: raises TypeError: '>=' not supported between instances of 'NoneType' and 'int'",
            "         [TB403 rule-raised]",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_what_the_report_says(name: str):
    batch, schema, level, lines = REPORTS[name]
    assert report(batch, schema, level) == lines


def test_a_batch_that_holds_itself_and_one_that_cannot_be_looked_at():
    loop = step()
    loop["obs"] = Batch(image=np.zeros((4, 3, 8, 8), np.float32), mode="day")
    loop["info"] = loop
    assert report(loop, record(info=Batch)) == [
        f"batch.{'info.' * 7}inf...nfo{'.info' * 7}  nested more than 100 deep",
        "                          [TB104 endless-nesting]",
        "                          does a batch hold itself? store a copy, or what is needed of it",
    ]

    class Broken(np.ndarray):
        @property
        def dtype(self) -> Any:
            raise ValueError("a secret")

    batch = step()
    batch.__dict__["act"] = np.arange(4).view(Broken)
    assert report(batch, Step) == [
        "batch.act  raises ValueError when it is looked at  [TB105 unreadable-field]",
        "           its class does not act as it should; does its __init__ call super().__init__()?",
    ]


def test_every_code_is_in_one_of_these_reports():
    shown = {code for *_, lines in REPORTS.values() for code in re.findall(r"\[(TB\d+ [\w-]+)\]", "\n".join(lines))}
    assert shown == set(get_args(Code)) - {"TB104 endless-nesting", "TB105 unreadable-field"}  # they are above


def test_the_head_says_which_batch_where_and_what_was_asked_for():
    batch = step(act=...)

    def learn() -> None:
        validate(batch, Step)

    with pytest.raises(SchemaError) as caught:
        learn()
    head = [re.sub(r":\d+$", ":LINE", line) for line in str(caught.value).splitlines()[:4]]
    assert head == [
        "batch is not a Step (1 problem)",
        "  boundary   validate() in learn()  tests/validation/test_messages.py:LINE",
        "  schema     tests/validation/test_messages.py:LINE",
        "  got        Batch[N=4]  obs.image f32[4,3,8,8]  obs.mode str  rew f32[4]",
    ]


def test_values_are_never_shown():
    secret = "hunter2"
    batch = step(act=secret, rew=np.array([123456.0]), obs=Batch(image=[7654321.0], mode=secret), more=[secret] * 4)
    text = str(refused(batch, Step)) + json.dumps(refused(batch, Step).to_dict())
    assert secret not in text
    assert "123456" not in text
    assert "7654321" not in text


def test_rich_shows_the_same_characters():
    error = refused(step(act=..., actions=np.arange(3), rew=np.zeros(4)), Step)
    console = Console(width=200, color_system="truecolor", force_terminal=True)
    with console.capture() as capture:
        console.print(error)
    shown = capture.get()
    assert f"{error.problems[0].page}\x1b" in shown  # codes are links
    shown = re.sub(r"\x1b]8;.*?\x1b\\", "", shown)
    assert "\x1b[" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown).rstrip("\n") == str(error)


def test_the_report_as_data():
    error = refused(step(act=np.arange(3)), Step)
    data = json.loads(json.dumps(error.to_dict()))
    assert data["schema"] == "Step"
    assert data["problems"] == [
        {
            "path": "act", "code": "TB302 dimension-conflict", "expected": "",
            "got": "N is 3 here, but 4 in obs.image, rew", "schema": "Step", "hint": "",
            "page": "https://typedbatch.readthedocs.io/en/stable/errors/TB302.html",
        }
    ]  # fmt: skip
    assert set(data) == {"schema", "place", "boundary", "got", "problems"}


# What collectors and trainers of other libraries call things.
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("rew", "reward"), ("rew", "rewards"), ("act", "actions"), ("act", "action"), ("terminated", "dones"),
        ("terminated", "terminals"), ("truncated", "timeouts"), ("obs_next", "new_obs"), ("obs_next", "next_obs"),
        ("obs_next", "next_observations"), ("obs", "observations"), ("info", "infos"),
    ],
)  # fmt: skip
def test_the_name_that_another_library_has_for_it(ours: str, theirs: str):
    batch = Batch(fields())
    batch[theirs] = batch.pop(ours)
    (problem,) = refused(batch, RolloutBatch).problems
    assert problem.path == ours
    assert problem.hint.startswith(f"did you mean {theirs!r}?")


@pytest.mark.parametrize(
    ("ours", "other"), [("old_logp", "rollout_logp"), ("terminated", "truncated"), ("prompt_ids", "prompt_mask")]
)
def test_a_field_that_is_known_by_itself_is_no_slip_for_another(ours: str, other: str):
    (problem,) = refused(Batch({other: np.zeros(2)}), record(**{ours: Array})).problems
    assert "did you mean" not in problem.hint
    (problem,) = refused(Batch({ours[:-1]: np.zeros(2), other: np.zeros(2)}), record(**{ours: Array})).problems
    assert problem.hint.startswith(f"did you mean {ours[:-1]!r}?")


def test_paths_are_python():
    odd = Batch({"agent 1": Batch({"a.b": np.zeros(2)}), "x\ny": np.zeros(2)})
    schema = record(**{"agent 1": record(**{"a.b": Tensor, "c": Array}), "x\ny": Tensor})
    lines = report(odd, schema)
    assert lines[0].startswith("batch['agent 1']['a.b']  f64[2], expected a torch tensor")
    assert any(line.startswith("batch['agent 1'].c") for line in lines)
    assert any(line.startswith(r"batch['x\ny']") for line in lines)


def test_of_a_union_the_closest_is_explained():
    both = record(x=Float[np.ndarray, "N"] | Int[np.ndarray, "N 2"] | Tensor)
    assert report(Batch(x=np.zeros((3, 3), int)), both) == [
        "batch.x  shape (3, 3), expected shape (N, 2)  [TB303 wrong-shape]"
    ]
    with pytest.raises(SchemaError, match="batch is not a RolloutBatchProtocol"):
        validate(Batch(fields(rew=...)), Step | RolloutBatchProtocol)


@pytest.mark.parametrize("name", ["rew'", 'rew"', "re'w?", "; did you mean 'rew'?"])
def test_a_name_with_a_quote_in_it_is_named_as_it_is(name: str):
    batch = Batch(fields())
    batch[name] = batch.pop("rew")
    (problem,) = refused(batch, RolloutBatch).problems
    near = name if name != "; did you mean 'rew'?" else ""
    assert problem.hint.startswith(f"did you mean {near!r}?  (" if near else "declared in ")


def test_what_rename_knows_is_what_hints_know():
    for theirs in (name for names in NAMES.values() for name in names if "." not in name):
        ours = {name for name, _ in rename(Batch({theirs: np.zeros(2)}), "tianshou").items()}
        assert nearest(*ours, (theirs,)) == theirs


def test_every_message_has_the_same_hint_for_a_field_of_another_name():
    named: dict[str, Any] = {"obs": np.zeros(2), "rew": np.zeros(2), "returns": np.zeros(2)}

    class Target(BatchRecord):
        obs: np.ndarray
        rew: np.ndarray
        returns: np.ndarray

    target = Target(**named)
    for slip in (
        lambda: Batch(named).ret,
        lambda: setattr(target, "ret", 1),
        lambda: Target(obs=1, rew=1, ret=1),  # type: ignore[call-arg]
        lambda: extend(Batch(obs=np.zeros(2), rew=np.zeros(2)), Target, ret=np.zeros(2)),
    ):
        with pytest.raises((AttributeError, TypeError), match="did you mean 'returns'"):
            slip()
