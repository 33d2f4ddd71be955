"""Schemas: a file keeps the name and version of one; what is saved and what is loaded is checked."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Generic, Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.files.helpers import ENDINGS, assert_same, hdf5_by_hand, with_document
from typedbatch import (
    ActStateBatch,
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    LogpOldBatch,
    PrioBatch,
    RolloutBatch,
    SampleBatch,
    checked,
    checking,
)
from typedbatch._typing import Act_co, K_co, Obs_co
from typedbatch.errors import DeclarationError, SchemaError, SettingError, StorageError
from typedbatch.files import load, save, schema_version
from typedbatch.testing import example


@pytest.fixture(params=ENDINGS)
def path(request: Any, tmp_path: Any) -> Any:
    return tmp_path / f"batch{request.param}"


Array = NDArray[Any]


class Inner(BatchRecord):
    deep: Array


class Steps(BatchRecord):
    obs: Array
    act: Array
    inner: Inner
    note: str | None = None


class StepsProtocol(BatchProtocol, Protocol):
    obs: Array


class OtherProtocol(BatchProtocol, Protocol):
    tokens: Array


class WithRule(BatchRecord):
    rew: Annotated[Array, Finite]


def of_version(version: int | None, name: str = "Versioned") -> Any:
    """A class of this name, as the program has it at some time."""
    cls = type(name, (BatchRecord,), {"__annotations__": {"obs": np.ndarray}, "__module__": __name__})
    return cls if version is None else schema_version(version)(cls)


def steps(**more: Any) -> Steps:
    return Steps(obs=np.arange(3.0), act=np.arange(3), inner=Inner(deep=np.ones((3, 2))), **more)


def test_a_record_comes_back_as_one_if_it_is_asked_for(path):
    save(steps(), path)
    read = load(path, Steps)
    assert (type(read), type(read.inner)) == (Steps, Inner)
    assert_same(read, steps())


def test_without_a_schema_a_record_comes_back_as_a_batch(path):
    save(steps(), path)
    read = load(path)
    assert (type(read), type(read.inner)) == (Batch, Batch)


def test_a_field_with_a_default_may_be_missing(path):
    save(Batch(obs=np.ones(2), act=np.ones(2), inner={"deep": np.ones(2)}), path)
    assert load(path, Steps).note is None


def test_a_protocol_gives_the_batch_as_it_is(path):
    save(SampleBatch(obs=np.arange(2), more=np.arange(2)), path, StepsProtocol)
    read = load(path, StepsProtocol)
    assert type(read) is SampleBatch
    assert list(read.__dict__) == ["obs", "more"]


def test_mapped_arrays_are_checked_and_come_back_too(tmp_path):
    save(steps(), tmp_path / "a.safetensors")
    assert_same(load(tmp_path / "a.safetensors", Steps, mmap=True), steps())


def test_a_batch_that_does_not_match_is_not_loaded(path):
    save(Batch(obs=torch.ones(3), act=np.arange(2)), path)
    with pytest.raises(SchemaError) as caught:
        load(path, Steps)
    assert {problem.path for problem in caught.value.problems} >= {"obs", "inner"}
    assert caught.value.boundary == f"load() of {path}"


def test_a_batch_that_does_not_match_is_not_saved(path):
    save(steps(), path)
    before = path.read_bytes()
    with pytest.raises(SchemaError) as caught:
        save(Batch(obs=np.ones(3)), path, Steps)
    assert {problem.path for problem in caught.value.problems} == {"act", "inner"}
    assert caught.value.boundary == f"save() to {path}"
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


def test_a_record_that_does_not_match_its_own_class_is_not_saved(path):
    broken = steps()
    broken.act = np.arange(7)
    with pytest.raises(SchemaError):
        save(broken, path)
    assert not path.exists()


def test_rules_on_values_are_checked_at_that_level(path):
    batch = Batch(rew=np.array([np.nan]))
    save(batch, path, WithRule)
    with checking("values"):
        with pytest.raises(SchemaError, match="rew"):
            load(path, WithRule)
        with pytest.raises(SchemaError, match="rew"):
            save(batch, path, WithRule)


def test_with_checks_off_anything_is_saved_and_loaded(path):
    with checking("off"):
        save(Batch(tokens=np.ones(2)), path, Steps)
        assert load(path, Steps).tokens.tolist() == [1, 1]
    assert load(path).tokens.tolist() == [1, 1]


@pytest.mark.parametrize("name", ["{x}", "{}", "{0.real}", "{", "}", "%s"])
def test_a_path_with_braces_is_shown_as_it_is(name, path):
    path = path.with_name(name + path.name)
    with pytest.raises(SchemaError, match=re.escape(f"save() to {path}")):
        save(Batch(a=1), path, Steps)
    save(Batch(a=1), path)
    with pytest.raises(SchemaError, match=re.escape(f"load() of {path}")):
        load(path, Steps)


@pytest.mark.parametrize("schema", [int, "Steps", np.ndarray, 5, type(None)], ids=repr)
def test_what_is_no_schema_is_refused(schema, path):
    save(steps(), path)
    before = path.read_bytes()
    for refused in (lambda: save(steps(), path, schema), lambda: load(path, schema)):
        with pytest.raises(DeclarationError):
            refused()
    assert path.read_bytes() == before


def test_a_union_gives_the_part_that_matches(path):
    save(steps(), path, OtherProtocol | Steps)
    assert type(load(path, OtherProtocol | Steps)) is Steps
    assert type(load(path, RolloutBatch | Steps | None)) is Steps
    assert type(load(path, None | StepsProtocol)) is Batch
    with pytest.raises(SchemaError):
        load(path, OtherProtocol | WithRule)
    with pytest.raises(SchemaError):
        load(path, OtherProtocol | None)


@pytest.mark.parametrize("union", [OtherProtocol | Steps, None | Steps, Steps | None])
def test_the_part_of_a_union_that_matches_is_the_one_whose_version_is_kept(union, path):
    save(steps(), path, union)
    with pytest.raises(StorageError, match="contains a Steps of version 1, but the program declares version 2"):
        load(path, of_version(2, "Steps"))


@pytest.mark.parametrize(("saved", "asked"), [(None, 2), (1, 2), (2, 1), (2, None), (3, 2)])
def test_another_version_is_refused(saved, asked, path):
    save(of_version(saved)(obs=np.ones(2)), path)
    expected = f"{path} contains a Versioned of version {saved or 1}, but the program declares version {asked or 1}; "
    expected += "load it without a schema, change it, and save it again"
    with pytest.raises(StorageError, match=re.escape(expected)):
        load(path, of_version(asked))
    assert load(path).obs.tolist() == [1, 1]
    load(path, of_version(7, "Other"))


@pytest.mark.parametrize(("saved", "asked"), [(None, None), (None, 1), (1, None), (2, 2)])
def test_the_same_version_is_loaded(saved, asked, path):
    save(Batch(obs=np.ones(2)), path, of_version(saved))
    assert load(path, of_version(asked)).obs.tolist() == [1, 1]


def test_a_file_without_a_schema_has_no_version(path):
    save(Batch(obs=np.ones(2)), path)
    assert load(path, of_version(5)).obs.tolist() == [1, 1]


def test_a_schema_that_is_given_goes_before_the_class_of_a_record(path):
    save(of_version(4)(obs=np.ones(2)), path, of_version(9, "Wider"))
    load(path, of_version(5))
    with pytest.raises(StorageError, match="Wider of version 9"):
        load(path, of_version(8, "Wider"))


def test_a_version_is_not_inherited(path):
    class Longer(of_version(5)):
        """A record of its own."""

    save(Longer(obs=np.ones(2)), path)
    with pytest.raises(StorageError, match="Longer of version 1, but the program declares version 2"):
        load(path, of_version(2, "Longer"))


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", None], ids=repr)
def test_a_version_is_a_number_from_one_up(version):
    with pytest.raises(SettingError, match="of at least 1"):
        schema_version(version)


def test_a_version_leaves_the_class_as_it_is():
    assert schema_version(3)(Inner) is Inner


BROKEN: list[Any] = [5, "Steps", [], {}, {"name": "Steps"}, {"name": "Steps", "version": "x"}]
BROKEN += [{"name": "Steps", "version": float("inf")}, {"name": "Steps", "version": []}]


@pytest.mark.parametrize("known", BROKEN, ids=json.dumps)
def test_a_file_whose_schema_is_none_is_refused(known, tmp_path):
    document = {"version": 1, "class": "Batch", "tree": {"batch": {}, "class": "Batch"}, "crc32": {}, "schema": known}
    paths = [with_document(tmp_path / "a.safetensors", document)]
    paths += [hdf5_by_hand(tmp_path / "a.h5", lambda group: None, document)]
    for path in paths:
        for schema in (None, Steps):
            with pytest.raises(StorageError, match=re.escape(str(path))):
                load(path, schema)


class Goal(RolloutBatch[K_co, Obs_co, Act_co]):
    goal: K_co


@pytest.mark.parametrize("kind", [np.ndarray, Tensor])
@pytest.mark.parametrize("schema", [RolloutBatch, PrioBatch, ActStateBatch, Goal, LogpOldBatch])
def test_a_generic_record_is_saved_whatever_its_arguments_are(schema, kind, path):
    batch = example(schema[kind])
    assert type(batch) is schema
    save(batch, path)
    assert load(path, schema[kind]) == batch
    nested = Batch(batch, inner=batch)
    save(nested, path)
    assert load(path) == Batch(batch, inner=Batch(batch))


def test_a_generic_record_that_is_checked_takes_tensors():
    @checked
    class Values(BatchRecord, Generic[K_co]):
        v_s: K_co

    assert Values[Tensor](v_s=torch.ones(2)).v_s.tolist() == [1, 1]
    assert Values(v_s=np.ones(2)).v_s.tolist() == [1, 1]
    for wrong in (None, "text"):
        with pytest.raises(SchemaError):
            Values(v_s=wrong)
