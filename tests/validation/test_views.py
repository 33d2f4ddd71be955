"""Records that validate hands out: views on the same fields."""

from __future__ import annotations

import copy
import pickle
from typing import (
    Any,
)

import numpy as np
import pytest
from torch import Tensor

from tests.validation.helpers import Array, CamPos, N, fields, record
from typedbatch import (
    ActBatch,
    Batch,
    BatchRecord,
    RolloutBatch,
    convert,
    extend,
    validate,
)
from typedbatch.errors import FieldNameError, MissingFieldError


def test_a_view_and_its_batch_see_each_others_deletions_and_replacements():
    batch = Batch(fields())
    view, second = validate(batch, RolloutBatch), validate(batch, RolloutBatch)
    del batch["rew"]
    with pytest.raises(MissingFieldError):
        view.rew
    view["rew"] = np.ones(N)
    second.to_torch_()
    assert isinstance(batch["rew"], Tensor)
    batch.cat_(Batch(view))
    assert len(view) == len(second) == 2 * N
    view.clear()
    assert batch.is_empty()


def test_a_view_outlives_its_batch():
    views = [validate(Batch(act=np.arange(3)), ActBatch) for _ in range(2000)]
    assert all(view.act.sum() == 3 for view in views)
    views[0]["more"] = 1
    assert list(views[0].keys()) == ["act", "more"]


def test_views_are_pickled_and_copied_like_records():
    batch = Batch(fields())
    view = validate(batch, RolloutBatch)
    for other in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view), copy.copy(view)):
        assert type(other) is RolloutBatch
        assert other == batch
        del other["rew"]
        assert "rew" in batch
    assert view == batch


def test_a_view_is_closed_but_extra_fields_stay_and_are_carried():
    view = validate(Batch(act=np.zeros(4), done=np.zeros(4)), ActBatch)
    with pytest.raises(FieldNameError, match=r"batch\['done'\] = ..."):
        view.done = np.ones(4)  # type: ignore[attr-defined]
    assert view[1:]["done"].shape == (3,)


def test_extend_and_convert_give_nested_records_their_class_so_that_methods_work():
    schema = record(obs=CamPos)
    batch = Batch(obs=Batch(cam=np.ones(2), pos=np.ones(2)))
    for typed in (extend(batch, schema), convert(batch, schema)):  # new batches, so their class is free to choose
        assert typed.obs.both().tolist() == [2, 2]


def test_an_error_inside_a_property_of_a_record_is_not_blamed_on_the_property():
    class Sums(BatchRecord):
        act: Array

        @property
        def total(self) -> Any:
            return self.atc.sum()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'atc'"):
        Sums(act=np.zeros(2)).total


class Narrow(BatchRecord):
    x: np.ndarray


class Wide(BatchRecord):
    x: np.ndarray
    y: np.ndarray


@pytest.mark.parametrize("level", ["off", "structure", "values"])
def test_a_record_of_one_alternative_of_a_union_is_handed_out_itself(level):
    wide = Wide(x=np.zeros(2), y=np.zeros(2))
    assert validate(wide, Narrow | Wide, level=level) is wide
    assert type(validate(Batch(wide), Narrow | Wide, level=level)) is Narrow
