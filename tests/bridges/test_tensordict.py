"""Batches as TensorDicts and tensorclasses, and back: contents, shared memory, and what is refused."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    TensorDictBase,
    tensorclass,
)
from torch import Tensor
from torch.distributions import Normal

from tests.strategies import DTYPES, arrays, numpy_batches, object_arrays, tensors, trees
from typedbatch import Batch, BatchRecord, ObsBatch, objects, validate
from typedbatch._core.lengths import leaves
from typedbatch.bridges.tensordict import from_tensordict, to_tensorclass, to_tensordict
from typedbatch.errors import DeclarationError, LeafError, NoLengthError, SizeError, StructureError, TypedBatchError
from typedbatch.ragged import Ragged


class Rollout(TensorClass):
    obs: torch.Tensor
    act: torch.Tensor
    note: str = "none"


class LongRollout(Rollout):
    adv: torch.Tensor | None = None


@tensorclass
class Decorated:
    obs: torch.Tensor


@st.composite
def held(draw: st.DrawFn) -> Batch:
    """A batch of all that a TensorDict can hold."""
    rows = draw(st.integers(0, 4))
    with_rows = arrays(rows, tuple(DTYPES)) | tensors(rows) | object_arrays(rows)
    batch = draw(trees(with_rows | st.none() | st.builds(Batch) | st.just("text")))
    batch["anchor"] = np.arange(rows)
    return batch


def rollout(rows: int = 3) -> Batch:
    return Batch(obs=np.arange(2.0 * rows).reshape(rows, 2), act=np.arange(rows))


def addresses(batch: Batch) -> dict[str, int]:
    return {
        path: leaf.data_ptr() if isinstance(leaf, torch.Tensor) else leaf.ctypes.data
        for path, leaf in leaves(batch.__dict__)
    }


@given(held())
def test_there_and_back(batch):
    assert from_tensordict(to_tensordict(batch)) == batch


@given(numpy_batches(min_rows=1))
def test_arrays_become_tensors_on_the_same_memory(batch):
    data = to_tensordict(batch)
    back = from_tensordict(data)
    assert back == batch
    for path, leaf in leaves(batch.__dict__):
        if isinstance(leaf, np.ndarray) and leaf.size and leaf.ndim:
            assert addresses(back)[path] == leaf.ctypes.data, path


def test_tensors_are_the_very_same():
    tensor = torch.zeros(3, requires_grad=True)
    data = to_tensordict(Batch(a={"b": tensor}))
    assert data["a", "b"] is tensor
    assert from_tensordict(data).a.b is tensor


def test_arrays_that_torch_cannot_use_are_copied():
    frozen, backwards, foreign = np.arange(3.0), np.arange(3.0)[::-1], np.arange(3.0).astype(">f8")
    frozen.flags.writeable = False
    batch = Batch(frozen=frozen, backwards=backwards, foreign=foreign)
    data = to_tensordict(batch)
    assert not any(np.shares_memory(data[name].numpy(), batch[name]) for name in batch.keys())
    assert [data[name].tolist() for name in batch.keys()] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


@given(numpy_batches(min_rows=1), st.data())
def test_rows_of_one_are_rows_of_the_other(batch, data):
    i = data.draw(st.integers(0, len(batch) - 1))
    assert from_tensordict(to_tensordict(batch)[i]) == batch[i].to_torch()
    assert from_tensordict(to_tensordict(batch)[i:]) == batch[i:]


def test_rows_are_the_batch_size():
    data = to_tensordict(Batch(a=np.zeros((3, 2)), b={"c": np.zeros(3)}, d={}))
    assert data.batch_size == data["b"].batch_size == data["d"].batch_size == torch.Size([3])
    assert to_tensordict(Batch()).batch_size == torch.Size([0])


def test_a_batch_size_of_two_dimensions():
    batch = Batch(a=np.zeros((3, 2)), b={"c": np.ones((3, 2, 4))}, note="x")
    data = to_tensordict(batch, [3, 2])
    assert data.batch_size == data["b"].batch_size == torch.Size([3, 2])
    assert data[:, 1]["b", "c"].shape == (3, 4)
    assert from_tensordict(data) == batch


def test_no_batch_size_holds_scalars():
    batch = Batch(loss=1.5, steps=np.int64(3))
    assert from_tensordict(to_tensordict(batch, [])) == batch


@pytest.mark.parametrize("size", [[4], [3, 2], [3, 3]])
def test_a_batch_size_that_a_field_has_not_is_refused(size):
    with pytest.raises(StructureError, match=r"a\.b"):
        to_tensordict(Batch(a={"b": np.zeros(3)}), size)


def test_a_batch_size_that_is_none():
    with pytest.raises(SizeError, match="batch_size is 0 or more, got -1"):
        to_tensordict(Batch(a=np.zeros(3)), [-1])
    with pytest.raises(SizeError, match="batch_size is a whole number, got 'a'"):
        to_tensordict(Batch(a=np.zeros(3)), ["a"])  # type: ignore[list-item]


def test_objects_are_stacked_along_the_rows():
    batch = Batch(text=np.array(["a", "b", "c"], object), row=np.arange(3))
    data = to_tensordict(batch)
    assert isinstance(data.get("text"), NonTensorStack)
    assert data[1]["text"] == "b"
    assert data[[2, 0]]["text"] == ["c", "a"]
    assert from_tensordict(data[[2, 0]]).text.tolist() == ["c", "a"]


def test_objects_come_back_themselves():
    objects = np.empty(3, object)
    objects[:] = [{"a": 1}, [1, 2], np.zeros(2)]
    back = from_tensordict(to_tensordict(Batch(o=objects))).o
    assert back[0] == {"a": 1}
    assert back[1] == [1, 2]
    assert back[2] is objects[2]


def test_an_object_is_kept_once():
    data = to_tensordict(Batch(a=np.zeros(3), note="text", nothing=None))
    assert isinstance(data.get("note"), NonTensorData)
    assert data[0]["note"] == "text"
    assert from_tensordict(data[:2]) == Batch(a=np.zeros(2), note="text", nothing=None)


def test_non_tensor_leaves_of_theirs():
    data = TensorDict({"stack": NonTensorStack("p", "q"), "one": NonTensorData("x", batch_size=[2])}, [2])
    assert from_tensordict(data) == Batch(stack=np.array(["p", "q"], object), one="x")


def test_stacks_of_two_dimensions():
    inner = [NonTensorStack("a", "b", "c"), NonTensorStack("d", "e", "f")]
    back = from_tensordict(TensorDict({"names": NonTensorStack(*inner)}, [2, 3]))
    assert [list(row) for row in back.names] == [["a", "b", "c"], ["d", "e", "f"]]


@pytest.mark.parametrize("data", [NonTensorData("x"), NonTensorStack("x", "y")])
def test_a_lone_object_is_no_batch(data):
    with pytest.raises(LeafError, match="takes a TensorDict or a tensorclass, got NonTensor"):
        from_tensordict(data)


@pytest.mark.parametrize("cls", [Rollout, LongRollout, Decorated])
def test_tensorclasses_out_and_in(cls):
    fields = {"Rollout": ["obs", "act"], "LongRollout": ["obs", "act", "adv"], "Decorated": ["obs"]}[cls.__name__]
    batch = Batch({name: np.arange(3.0) for name in fields})
    made = to_tensorclass(batch, cls)
    assert type(made) is cls
    assert made.batch_size == torch.Size([3])
    assert made.obs.data_ptr() == batch.obs.ctypes.data
    back = from_tensordict(made)
    assert back.obs is made.obs
    assert {name: back[name].tolist() for name in fields} == {name: [0, 1, 2] for name in fields}


def test_text_in_a_tensorclass():
    made = to_tensorclass(Batch(rollout(), note="first"), Rollout)
    assert made.note == "first"
    assert from_tensordict(made).note == "first"
    assert from_tensordict(made[1]) == Batch(rollout()[1], note="first").to_torch()


def test_a_tensorclass_within_a_tensordict():
    inner = Decorated(obs=torch.ones(3), batch_size=[3])
    batch = from_tensordict(TensorDict({"a": inner}, [3]))
    assert type(batch.a) is Batch
    assert batch.a.obs is inner.obs


def test_a_tensorclass_with_other_fields():
    with pytest.raises(LeafError, match=r"Batch\(obs, act, zz\) is not a Rollout: .*zz"):
        to_tensorclass(Batch(rollout(), zz=np.zeros(3)), Rollout)


def test_a_batch_that_lacks_a_field_of_the_tensorclass():
    with pytest.raises(LeafError, match=r"Batch\(obs\) is not a Rollout: .*act"):
        to_tensorclass(Batch(obs=np.zeros(3)), Rollout)


def test_a_field_with_a_default_may_be_left_out():
    assert to_tensorclass(rollout(), LongRollout).adv is None
    assert to_tensorclass(rollout(), Rollout).note == "none"


@pytest.mark.parametrize("cls", [int, TensorDict, "Rollout", Rollout(torch.zeros(1), torch.zeros(1), batch_size=[1])])
def test_what_is_no_tensorclass(cls):
    with pytest.raises(LeafError, match=r"to_tensorclass\(\) takes a tensorclass, got "):
        to_tensorclass(rollout(), cls)


def test_a_lazy_stack():
    parts = [TensorDict({"a": torch.full((2,), i), "n": {"x": torch.ones(1)}}) for i in range(3)]
    batch = from_tensordict(LazyStackedTensorDict.lazy_stack(parts))
    assert batch == Batch(a=torch.tensor([[0, 0], [1, 1], [2, 2]]), n={"x": torch.ones(3, 1)})


def test_a_lazy_stack_of_rows_that_differ():
    lazy = LazyStackedTensorDict.lazy_stack([TensorDict({"a": torch.zeros(i)}) for i in (2, 3)])
    for data, path in [(lazy, "a"), (TensorDict({"n": lazy}, [2]), "n")]:
        with pytest.raises(LeafError, match=f"field '{path}.*its tensors cannot be stacked: .*'a'"):
            from_tensordict(data)


def test_a_lazy_stack_does_not_lose_fields():
    lazy = LazyStackedTensorDict.lazy_stack(
        [TensorDict({"a": torch.zeros(1), "b": torch.ones(1)}), TensorDict({"a": torch.zeros(1)})]
    )
    with pytest.raises(TypedBatchError, match="b"):
        from_tensordict(lazy)


def test_a_mapped_tensordict(tmp_path):
    batch = Batch(obs={"cam": np.arange(6.0).reshape(3, 2)}, ids=np.arange(3), note="text")
    to_tensordict(batch).memmap(tmp_path / "data")
    mapped = TensorDict.load_memmap(tmp_path / "data")
    back = from_tensordict(mapped)
    assert back == batch
    assert back.obs.cam is mapped["obs", "cam"]
    back.ids[0] = 9
    assert TensorDict.load_memmap(tmp_path / "data")["ids"].tolist() == [9, 1, 2]


def test_a_locked_tensordict_is_read():
    assert from_tensordict(TensorDict({"a": torch.zeros(2)}, [2]).lock_()) == Batch(a=torch.zeros(2))


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        (Normal(torch.zeros(3), torch.ones(3)), "a TensorDict would not index Normal[3] with its rows; store its"),
        (np.zeros(3, "datetime64[s]"), "datetime64[s][3] cannot become a tensor; torch has no such dtype"),
        (np.zeros(3, np.longdouble), "cannot become a tensor; torch has no such dtype"),
        (np.full((3, 2), None, object), "obj[3,2]: a TensorDict stacks objects only along the rows"),
    ],
)
def test_what_a_tensordict_cannot_hold(leaf, text):
    with pytest.raises(LeafError) as caught:
        to_tensordict(Batch(fine=np.zeros(3), a={"b": leaf}))
    assert caught.value.path == "a.b"
    assert text in str(caught.value)


def test_objects_do_not_go_into_two_dimensions():
    with pytest.raises(LeafError, match=r"field 'o': obj\[2\]: a TensorDict stacks objects only along the rows"):
        to_tensordict(Batch(a=np.zeros((2, 3)), o=np.array(["x", "y"], object)), [2, 3])


def test_fields_without_equal_rows():
    with pytest.raises(StructureError, match="different lengths: a has 3, others 2"):
        to_tensordict(Batch(a=np.zeros(3), b=np.zeros(2)))
    with pytest.raises(NoLengthError, match="field 'a': a scalar"):
        to_tensordict(Batch(a=1.0))


@pytest.mark.parametrize("given_value", [3, {"a": torch.zeros(2)}, None, Batch(), TensorDict])
def test_what_is_no_tensordict(given_value: Any):
    with pytest.raises(LeafError, match=r"from_tensordict\(\) takes a TensorDict or a tensorclass, got "):
        from_tensordict(given_value)


def test_what_is_no_batch():
    with pytest.raises(LeafError, match=r"to_tensordict\(\) takes a Batch, got dict"):
        to_tensordict({"a": np.zeros(2)})


class Named(TensorClass):
    one: torch.Tensor


class Texts(TensorClass):
    a: torch.Tensor
    d: str


def test_objects_in_a_tensorclass_come_back_as_rows():
    objects = np.array(["p", "q"], object)
    back = from_tensordict(to_tensorclass(Batch(a=np.zeros(2), d=objects), Texts))
    assert back.d.tolist() == ["p", "q"]
    assert back[1].d == "q"


def test_what_a_tensorclass_refuses_is_refused_in_one_line():
    for field in ("names", "device", "lock"):
        with pytest.raises(LeafError, match=r"Batch\(.*\) is not a Named: ") as caught:
            to_tensorclass(Batch({"a": np.zeros(2), field: np.ones(2)}), Named)
        assert "\n" not in str(caught.value)


def test_a_batch_size_that_is_no_list():
    with pytest.raises(SizeError, match="batch_size must be a list of whole numbers, got 3"):
        to_tensordict(Batch(a=np.zeros(3)), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("as_torch", [False, True])
def test_ragged_becomes_jagged(as_torch):
    batch: Any = Batch(tokens=Ragged({"ids": np.arange(5), "inner": {"w": np.zeros(5)}}, [2, 0, 3]), x=np.zeros(3))
    batch = batch.to_torch() if as_torch else batch
    batch.meta = {"temperature": 0.5}
    data = to_tensordict(batch)
    assert data.batch_size == torch.Size([3])
    assert [row.tolist() for row in data["tokens", "ids"].unbind()] == [[0, 1], [], [2, 3, 4]]
    assert data["tokens", "inner", "w"].is_nested
    back: Any = from_tensordict(data)
    assert back == batch.to_torch()
    assert back.tokens.values.ids.data_ptr() == data["tokens", "ids"].values().data_ptr()
    assert back.meta == {"temperature": 0.5}
    assert from_tensordict(to_tensordict(Batch(around=batch, x=np.zeros(3)))).around == batch.to_torch()


def test_jagged_tensors_that_are_no_ragged_stay_as_they_are():
    two, three = (torch.nested.nested_tensor([torch.ones(n), torch.ones(1)], layout=torch.jagged) for n in (2, 3))
    gaps = torch.nested.narrow(torch.ones(2, 4), 1, torch.zeros(2).long(), torch.tensor([1, 2]), layout=torch.jagged)
    for inner in ({"a": two, "b": three}, {"a": two, "b": torch.ones(2)}, {"a": gaps}):
        back: Any = from_tensordict(TensorDict({"tokens": TensorDict(inner, [2])}, [2]))
        assert back.tokens.a is inner["a"]
    assert from_tensordict(TensorDict({"a": two}, [2])).a is two  # type: ignore[attr-defined]


def test_ragged_objects_are_no_tensors():
    with pytest.raises(LeafError, match=r"'tokens\.text'.*is not a tensor"):
        to_tensordict(Batch(tokens=Ragged({"text": ["a", "b"]}, [1, 1])))


INNER = TensorDict({"b": torch.ones(3)}, [3])
GIVEN = {
    "rows": TensorDict({"a": torch.zeros(3), "inner": INNER}, [3]),
    "no rows": TensorDict({"a": torch.zeros(0)}, [0]),
    "no batch size": TensorDict({"a": torch.zeros(3)}, []),
    "lazy": LazyStackedTensorDict(INNER, INNER),
}


def assigned(value: Any, *, item: bool) -> Batch:
    batch = Batch(x=torch.zeros(3))
    if item:
        batch["obs"] = value
    else:
        batch.obs = value
    return batch


def updated(*args: Any, **fields: Any) -> Batch:
    batch = Batch(x=torch.zeros(3))
    batch.update(*args, **fields)
    return batch


def row_assigned(value: Any) -> Batch:
    batch = Batch(a=torch.zeros(3))
    batch[0] = value
    return batch


STORED_BY: dict[str, Any] = {
    "constructor": lambda value: Batch(obs=value),
    "record": lambda value: ObsBatch(obs=value, info=Batch()),
    "nested": lambda value: Batch(obs={"deep": value}).obs.deep,
    "attribute": lambda value: assigned(value, item=False),
    "item": lambda value: assigned(value, item=True),
    "update": lambda value: updated(obs=value),
    "Batch()": Batch,
    "update()": updated,
    "row": row_assigned,
    "list": lambda value: Batch(obs=[value, value]),
    "list of dicts": lambda value: Batch(obs=[{"a": value}, {"a": value}]),
    "stack": lambda value: Batch.stack([value, value]),
    "cat": lambda value: Batch.cat([value, value]),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("way", STORED_BY)
def test_a_tensordict_is_not_stored_and_the_error_names_the_function_that_converts_it(way: str, name: str) -> None:
    text = r"typedbatch\.bridges\.tensordict\.from_tensordict\((\.\.\.|data)?\) converts it"
    with pytest.raises((LeafError, StructureError), match=text):
        STORED_BY[way](GIVEN[name])
    if way not in ("row", "list of dicts", "nested", "stack") and name != "no batch size":
        STORED_BY[way](from_tensordict(GIVEN[name]))


@pytest.mark.parametrize("hint", [TensorDict, TensorDictBase, TensorDict | None, Annotated[TensorDict, "N"]], ids=str)
def test_a_tensordict_is_refused_as_a_declaration_and_a_record_is_the_way_out(hint: Any) -> None:
    with pytest.raises(DeclarationError, match=r"does not store a TensorDict.*declare a record.*from_tensordict\(\)"):
        type("Declares", (BatchRecord,), {"__annotations__": {"observations": hint}, "__module__": __name__})

    class Observations(BatchRecord):
        a: Tensor

    class Declares(BatchRecord):
        observations: Observations

    data = TensorDict({"a": torch.zeros(3)}, [3])
    assert Declares(observations=validate(from_tensordict(data), Observations)).observations.a is data["a"]


def test_objects_may_be_tensordicts() -> None:
    batch = Batch(a=objects([INNER, INNER]))
    assert batch.a[1] is INNER
