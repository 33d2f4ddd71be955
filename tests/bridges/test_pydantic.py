"""Protocols and records where pydantic checks, models of a batch's fields, and JSON."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
import warnings
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import BFloat16, Bool, Float16, Float32, Float64, Int8, Int16, Int32, Integer, UInt8, UInt64
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call
from pydantic.dataclasses import dataclass
from torch import Tensor

import typedbatch
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    Column,
    ObsBatchProtocol,
    Ragged,
    RolloutBatch,
    RolloutBatchProtocol,
    SampleBatch,
    SeparateSizes,
    objects,
    testing,
    validate,
)
from typedbatch._core.lengths import leaves
from typedbatch.bridges.pydantic import BatchModel, model_from, to_batch
from typedbatch.errors import DeclarationError, LeafError
from typedbatch.json_schema import json_schema
from typedbatch.schema.read import is_schema

FLAGS = np.zeros(2, bool)


def rollout(**fields: Any) -> Batch:
    made = {"obs": np.zeros((2, 3)), "obs_next": np.ones((2, 3)), "act": np.arange(2), "rew": np.ones(2)}
    return Batch({**made, "terminated": FLAGS, "truncated": FLAGS, "info": {}, **fields})


class Step(BaseModel):
    rollout: RolloutBatchProtocol
    record: RolloutBatch | None = None
    tensors: ObsBatchProtocol[Tensor] | None = None
    steps: SampleBatch | None = None
    anything: Batch | BatchProtocol | None = None


class Cams(BatchRecord):
    left: np.ndarray[Any, Any]


class Seen(BatchRecord):
    cams: Cams
    note: str = "none"
    extra: np.ndarray[Any, Any] | None = None


def refused(call: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    with pytest.raises(ValidationError) as caught:
        call()
    return {error["loc"]: dict(error) for error in caught.value.errors()}


def test_a_protocol_hands_on_the_very_batch():
    batch = rollout()
    step = Step(rollout=batch, record=batch, tensors=Batch(obs=torch.zeros(2), info={}), steps=SampleBatch(obs=[1]))
    assert step.rollout is batch
    assert type(step.record) is RolloutBatch
    assert step.record.obs is batch.obs


def test_no_module_of_the_bridge_is_imported_by_the_user():
    code = (
        "import numpy as np\nfrom pydantic import BaseModel\nfrom typedbatch import Batch, ObsBatchProtocol\n"
        "class M(BaseModel):\n    obs: ObsBatchProtocol\nprint(len(M(obs=Batch(obs=np.zeros(3), info={})).obs))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "3\n"


def test_every_problem_is_an_error_with_its_place():
    errors = refused(lambda: Step(rollout=rollout(rew=np.zeros(3)), record=Batch(obs=np.zeros(2), info={})))
    conflict = errors["rollout", "rew"]
    assert conflict["type"] == "dimension_conflict"
    assert conflict["msg"] == "N is 3 here, but 2 in obs, obs_next, act, terminated, truncated [TB302]"
    assert conflict["ctx"]["code"] == "TB302"
    assert {loc[1] for loc in errors if loc[0] == "record"} == {"obs_next", "act", "rew", "terminated", "truncated"}
    assert errors["record", "act"]["msg"].startswith("missing, expected a numpy array")


def test_the_place_of_what_is_nested():
    class Holder(BaseModel):
        seen: Seen

    errors = refused(lambda: Holder(seen=Batch(cams={"left": torch.zeros(2)}, note="x")))
    assert list(errors) == [("seen", "cams", "left")]
    assert errors["seen", "cams", "left"]["type"] == "wrong_kind"
    assert isinstance(errors["seen", "cams", "left"]["input"], torch.Tensor)


def test_the_stage_counts():
    assert ("tensors", "obs") in refused(lambda: Step(rollout=rollout(), tensors=Batch(obs=np.zeros(2), info={})))
    assert type(Step(rollout=rollout(), steps=Batch(obs=np.zeros(2))).steps) is SampleBatch


def test_mappings_become_batches_unless_pydantic_is_strict():
    adapter = TypeAdapter(RolloutBatchProtocol)
    fields = dict(rollout().__dict__)
    assert adapter.validate_python(fields).obs is fields["obs"]
    assert [error["type"] for error in refused(lambda: adapter.validate_python(fields, strict=True)).values()] == [
        "not_a_batch"
    ]
    assert refused(lambda: adapter.validate_python({"obs": {1: 2}}))[("obs",)]["type"] == "no_batch"
    for value in (3, None, "text", [rollout()]):
        assert [error["type"] for error in refused(lambda: adapter.validate_python(value)).values()] == ["not_a_batch"]


def test_functions_and_dataclasses():
    @validate_call(validate_return=True)
    def act(batch: RolloutBatchProtocol, n: int) -> RolloutBatch:
        return batch  # type: ignore[return-value]  # pydantic makes it one

    @dataclass
    class Held:
        record: RolloutBatch

    batch = rollout()
    assert type(act(batch, "3")) is RolloutBatch  # type: ignore[arg-type]  # as pydantic converts
    assert (0, "act") in refused(lambda: act(rollout(act="left"), 3))
    held = Held(batch)  # type: ignore[arg-type]
    assert type(held.record) is RolloutBatch
    assert dataclasses.fields(held)[0].name == "record"


def test_models_with_batches_are_equal_and_unequal():
    assert Step(rollout=rollout()) == Step(rollout=rollout())
    assert Step(rollout=rollout()) != Step(rollout=rollout(rew=np.zeros(2)))


def test_there_and_back_through_json():
    step = Step(rollout=rollout(info={"name": np.array(["a", None], object)}), record=rollout())
    text = step.model_dump_json()
    assert Step.model_validate_json(text) == step
    assert json.loads(text)["rollout"]["act"] == [0, 1]
    assert step.model_dump()["rollout"] is step.rollout


def test_what_json_cannot_hold_is_named():
    with pytest.raises(Exception, match="JSON has no complex numbers"):
        Step(rollout=rollout(rew=np.zeros(2, complex))).model_dump_json()


PROTOCOLS = sorted(name for name in dir(typedbatch) if name.endswith("Protocol") and name != "BatchProtocol")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_a_json_schema(name):
    schema = json_schema(getattr(typedbatch, name))
    Draft202012Validator.check_schema(schema)
    assert schema == {**TypeAdapter(getattr(typedbatch, name)).json_schema()}
    assert schema["title"] == name
    assert set(schema["required"]) <= set(schema["properties"])


def test_a_json_schema_says_what_can_be_said():
    class Pixels(BatchRecord):
        cam: Float32[np.ndarray, "N 2 3"]
        act: Integer[np.ndarray, "N"]
        done: Bool[np.ndarray, "N"]
        rest: Float32[np.ndarray, "N *rest"]
        cams: Cams
        note: str = "x"

    schema = json_schema(Pixels)
    properties = schema["properties"]
    assert schema["required"] == ["cam", "act", "done", "rest", "cams"]
    assert properties["act"] == {
        "type": "array",
        "items": {"type": "integer"},
        "description": "a numpy array of an integer type, shape (N,)",
    } or properties["act"]["items"] == {"type": "integer"}
    assert properties["done"]["items"] == {"type": "boolean"}
    assert properties["cam"]["items"]["items"] == {
        "type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3,
    }  # fmt: skip
    assert properties["rest"]["items"] == {}
    assert properties["cams"]["properties"]["left"]["type"] == "array"
    fits = {"cam": [[[0.5] * 3] * 2], "act": [1], "done": [True], "rest": [1], "cams": {"left": [1]}}
    validator = Draft202012Validator(schema)
    assert validator.is_valid(fits)
    assert not validator.is_valid({**fits, "act": [0.5]})
    assert not validator.is_valid({**fits, "cam": [[[0.5] * 4] * 2]})


def test_a_schema_that_holds_itself_ends():
    class Node(BatchRecord):
        value: np.ndarray[Any, Any]
        child: Node | None = None

    globals()["Node"] = Node
    assert is_schema(Node)
    inner = json_schema(Node)["properties"]["child"]["anyOf"]
    assert {"type": "object", "title": "Node"} in inner


def test_a_model_from_a_protocol_shares_the_arrays():
    model = model_from(RolloutBatchProtocol)
    batch = rollout()
    made = model(**batch.__dict__)
    assert issubclass(model, BatchModel)
    assert model.__name__ == "RolloutBatchProtocol"
    assert made.obs is batch.obs  # type: ignore[attr-defined]
    assert to_batch(made) == batch
    assert to_batch(made).obs is batch.obs
    assert made == model(**batch.__dict__) != model(**rollout(act=np.ones(2)).__dict__)
    assert made != batch


def test_a_model_checks_its_fields_together():
    model = model_from(RolloutBatch, "Steps")
    assert model.__name__ == "Steps"
    fields = dict(rollout().__dict__)
    assert list(refused(lambda: model(**{**fields, "rew": np.zeros(5)}))) == [("rew",)]
    assert refused(lambda: model(obs=[1]))[("act",)]["type"] == "missing"


def test_a_model_reads_what_it_writes():
    model = model_from(RolloutBatchProtocol)
    made = model(**rollout().__dict__)
    assert model.model_validate_json(made.model_dump_json()) == made
    assert model.model_json_schema()["properties"]["rew"]["type"] == "array"


def test_a_model_keeps_what_is_not_declared():
    model = model_from(RolloutBatchProtocol)
    made = model(**rollout(mine=np.arange(2)).__dict__)
    assert to_batch(made).mine.tolist() == [0, 1]
    if tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 13):  # docs/validators.md says so
        assert model.model_validate_json(made.model_dump_json()) == made


def test_defaults_and_absent_fields():
    model = model_from(Seen)
    made = model(cams={"left": [1, 2]})
    assert (made.note, made.extra) == ("none", None)  # type: ignore[attr-defined]
    assert to_batch(made).cams.left.tolist() == [1, 2]
    assert list(refused(lambda: model(cams={"right": [1]}))) == [("cams", "left")]


def test_any_model_of_arrays_becomes_a_batch():
    class Inner(BaseModel, arbitrary_types_allowed=True):
        cam: np.ndarray[Any, Any]

    class Outer(BaseModel, arbitrary_types_allowed=True):
        obs: Inner
        rew: np.ndarray[Any, Any]

    cam = np.zeros(2)
    batch = to_batch(Outer(obs=Inner(cam=cam), rew=np.ones(2)))
    assert batch.obs.cam is cam
    assert list(batch.keys()) == ["obs", "rew"]


def test_what_is_no_model_and_no_schema():
    with pytest.raises(LeafError, match=r"to_batch\(\) takes a pydantic model, got dict"):
        to_batch({"obs": 1})
    with pytest.raises(DeclarationError):
        model_from(int)
    with pytest.raises(DeclarationError):
        json_schema(int)


def test_a_name_that_pydantic_does_not_take():
    class Private(BatchProtocol):
        _hidden: np.ndarray[Any, Any]

    with pytest.raises(DeclarationError, match="pydantic refuses a model with the fields of Private"):
        model_from(Private)


class WithDefault(BatchRecord):
    a: np.ndarray[Any, Any]
    o: np.ndarray[Any, Any] = np.zeros(3)
    n: np.ndarray[Any, Any] | None = None


Kept = model_from(WithDefault, "Kept")


def test_defaults_are_fields():
    made = Kept(a=np.zeros(3))
    made.o[:] = 5  # type: ignore[attr-defined]
    assert to_batch(made).o.tolist() == [5, 5, 5]
    assert Kept.model_validate_json(made.model_dump_json()) == made
    assert to_batch(made).n is None


def test_a_model_that_is_kept_is_pickled():
    made = Kept(a=np.zeros(3))
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.model_copy(deep=True) == made


def test_the_parts_of_a_union_have_their_names():
    class Either(BaseModel):
        it: Cams | RolloutBatch

    assert {("it", "Cams", "left"), ("it", "RolloutBatch", "act")} <= set(refused(lambda: Either(it=Batch(c=[1]))))


def test_numbers_without_value_come_back():
    class Held(BatchRecord):
        it: Float32[np.ndarray, "N"]

    model = model_from(Held)
    made = model(it=np.array([np.nan, np.inf, 1], np.float32))
    assert made.model_dump_json() == '{"it":[NaN,Infinity,1.0]}'
    assert json.loads(made.model_dump_json())["it"][2] == 1


class Inner(BatchRecord):
    flags: Bool[np.ndarray, "N"]
    small: Float16[np.ndarray, "N 2"]


class Steps(BatchRecord):
    ids: Int32[Tensor, "tokens"]
    logp: BFloat16[Tensor, "tokens 2"]


OBJECTS = Column[Any]
TEXT = np.ndarray[Any, np.dtype[np.str_]]
HINTS = [
    *(one[np.ndarray, "N 3"] for one in (Float16, Float32, Float64, Int8, UInt8, UInt64, Bool)),
    *(one[Tensor, "N"] for one in (Float16, BFloat16, Float32, Float64, Int16, UInt8, Bool)),
    *(Float32[np.ndarray, ""], np.float16, np.bool_, BFloat16[Tensor, ""], np.longdouble, Int32[np.ndarray, "N"]),
    *(TEXT, OBJECTS, Inner, Annotated[Inner, SeparateSizes], Ragged[Steps]),
    *(dict[str, Float32[Tensor, "N"]], Float32[Tensor, "N"] | None, Int8[np.ndarray, "N"] | None, Literal["a", "b"]),
]
COLUMN = [[1], {"a": [1.5, None]}, None, "NaN", 2]


@st.composite
def held(draw: st.DrawFn) -> Batch:
    """Return a batch of a random record."""
    hints = [Int32[np.ndarray, "N"], *draw(st.lists(st.sampled_from(HINTS), max_size=4))]
    cls = type("Held", (BatchRecord,), {"__annotations__": {f"f{i}": hint for i, hint in enumerate(hints)}})
    rows = draw(st.integers(0, 3))
    batch = draw(testing.batches(cls, N=rows))
    for (name, leaf), hint in zip(batch.__dict__.items(), hints, strict=True):
        if hint is OBJECTS:
            batch[name] = objects(COLUMN[:rows])
        elif hint is TEXT:
            batch[name] = (
                np.array(["a", "NaN", ""])[:rows] if not rows or draw(st.booleans()) else np.full((rows, 2), "b")
            )
        elif rows and getattr(leaf, "ndim", 0) and "float" in str(leaf.dtype):
            leaf[draw(st.integers(0, rows - 1))] = draw(st.sampled_from([0.5, np.nan, np.inf, -np.inf]))
    return batch


@given(held())
@pytest.mark.parametrize("through", ["adapter", "field", "model"])
def test_a_record_reads_its_own_json(through, batch):
    cls = type(batch)
    if through == "model":
        model: Any = model_from(cls)
        back = validate(to_batch(model.model_validate_json(model(**batch.__dict__).model_dump_json())), cls)
    else:
        adapter: Any = TypeAdapter(cls if through == "adapter" else list[cls])
        text = adapter.dump_json(batch if through == "adapter" else [batch])
        back = adapter.validate_json(text)
        back = back if through == "adapter" else back[0]
        Draft202012Validator.check_schema(adapter.json_schema())
        if not set(b"NIa") & set(text):
            Draft202012Validator(adapter.json_schema()).validate(json.loads(text))
    assert type(back) is cls
    assert parts_of_batch(back) == parts_of_batch(batch)


def parts_of_batch(batch: Batch) -> dict[str, Any]:
    """Return kind, dtype, shape and values of each leaf, as text, so that NaN equals NaN."""
    found: dict[str, Any] = {}
    for path, leaf in leaves(batch.__dict__):
        if isinstance(leaf, Ragged):
            found[path] = leaf.lengths.tolist(), parts_of_batch(leaf.values)
        else:
            is_leaf = isinstance(leaf, (np.ndarray, Tensor))
            found[path] = (type(leaf), leaf.dtype, tuple(leaf.shape), repr(leaf.tolist())) if is_leaf else leaf
    return found


class Numbers(BatchRecord):
    """Numbers in narrow dtypes."""

    i8: Int8[np.ndarray, "N"]
    u8: UInt8[Tensor, "N 2"]
    f16: Float16[np.ndarray, "N"]
    yes: Bool[np.ndarray, "N"]
    f32: Float32[Tensor, "N"]


FITS = {"i8": [1], "u8": [[1, 2]], "f16": [0.1], "yes": [True], "f32": [None]}


@pytest.mark.parametrize(
    ("name", "given"),
    [("i8", [300]), ("i8", [0.5]), ("u8", [[-1, 0]]), ("f16", [1e6]), ("yes", [2]), ("f32", ["1.5"]), ("f32", [1e39])],
)
def test_numbers_that_the_declared_dtype_cannot_hold_are_refused(name, given):
    adapter = TypeAdapter(Numbers)
    assert adapter.validate_python(FITS).f32.isnan().all()
    for model in (adapter.validate_python, model_from(Numbers).model_validate):
        assert (name,) in refused(lambda call=model: call({**FITS, name: given}))
    wide = {**FITS, "i8": np.zeros(1, np.int64)}  # an array has a dtype, which is not changed
    assert ("i8",) in refused(lambda: adapter.validate_python(wide))


def test_what_is_written_for_numbers_without_value_is_read_where_nothing_is_declared():
    class Open(BatchRecord):
        it: np.ndarray[Any, Any]

    adapter = TypeAdapter(Open)
    assert adapter.dump_json(Open(it=np.array([np.nan, np.inf, 1]))) == b'{"it":["NaN","Infinity",1.0]}'
    assert np.isnan(adapter.validate_json('{"it":["NaN"]}').it).all()
    assert np.isnan(adapter.validate_json('{"it":[null,1.0]}').it).tolist() == [True, False]
    more = adapter.validate_json('{"it":[1.0],"own":["Infinity",1],"text":["NaN"]}')
    assert (more["own"].tolist(), more["text"].tolist()) == ([np.inf, 1], ["NaN"])
    with pytest.raises(ValidationError, match=r"1 validation error for lax-or-strict\[lax=function-plain\[Open\(\)\]"):
        adapter.validate_json('{"y":1}')


def test_objects_inside_objects_are_written():
    class Holder(BaseModel):
        batch: Batch

    objects = np.empty(4, object)
    objects[:] = [np.float32(0.5), {"a": np.int64(1)}, np.arange(2), Batch(x=[1])]
    written = json.loads(Holder(batch=Batch(o=objects, rows=np.arange(4))).model_dump_json())
    assert written["batch"]["o"] == [0.5, {"a": 1}, [0, 1], {"x": [1]}]
    with pytest.raises(Exception, match=r"field 'a\.sparse': torch f32\[2,2\] cannot be written as JSON"):
        Holder(batch=Batch(a={"sparse": torch.eye(2).to_sparse()})).model_dump_json()


@pytest.mark.parametrize(
    ("hint", "value"),
    [(np.bool_, True), (np.float64, 1.0), (np.ndarray[Any, Any] | int, True), (Literal[1, 2], 2), (np.int64, 1)],
)
def test_the_json_schema_takes_what_is_written(hint, value):
    schema: Any = type("Held", (BatchRecord,), {"__annotations__": {"it": hint}})
    written = json.loads(TypeAdapter(schema).dump_json(schema(it=value)))
    Draft202012Validator(json_schema(schema)).validate(written)


def test_choices_that_json_has_not_are_words():
    class Odd(BatchRecord):
        it: Literal[b"x"]

    assert json.loads(json.dumps(json_schema(Odd)))["properties"]["it"]["description"] == "b'x'"


def test_fields_that_are_called_like_members_of_a_model():
    class Odd(BatchProtocol):
        model_fields_set: np.ndarray[Any, Any]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic says that the name is taken
        model = model_from(Odd)
    assert to_batch(model(model_fields_set=np.ones(2))).model_fields_set.tolist() == [1, 1]


def test_models_in_lists_and_dicts():
    class Inner(BaseModel):
        x: float

    class Outer(BaseModel):
        many: list[Inner]
        named: dict[str, Inner]

    batch = to_batch(Outer(many=[Inner(x=1), Inner(x=2)], named={"a": Inner(x=3)}))
    assert batch.many.x.tolist() == [1, 2]
    assert batch.named.a.x == 3
