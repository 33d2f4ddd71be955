"""Fields that may be left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from tests.validation.helpers import Array
from typedbatch import (
    Batch,
    BatchRecord,
    convert,
    extend,
    validate,
)
from typedbatch.errors import DeclarationError


def test_two_records_do_not_share_a_default_that_can_be_written_to():
    class WithInfo(BatchRecord):
        act: Array
        info: Batch = Batch()
        weight: Array = np.ones(2)

    one, two = WithInfo(act=np.zeros(2)), WithInfo(act=np.zeros(2))
    one.info["note"] = 1
    one.weight[0] = 5
    assert two.info.is_empty()
    assert two.weight.tolist() == [1, 1]


def test_a_dataclass_field_is_not_stored_as_a_value():
    try:
        schema = type("Own", (BatchRecord,), {
            "__annotations__": {"act": Array}, "act": dataclasses.field(default_factory=lambda: np.zeros(3))
        })  # fmt: skip
    except DeclarationError:
        return  # refused when the class is made: just as good
    assert isinstance(schema().act, np.ndarray)  # type: ignore[attr-defined]


class Masked(BatchRecord):
    act: Array
    mask: Array | None = None


def test_extend_and_convert_fill_in_the_defaults_that_the_constructor_fills_in():
    made = Masked(act=np.zeros(2))
    assert list(extend(Batch(act=np.zeros(2)), Masked).keys()) == list(made.keys())
    assert list(convert(Batch(act=torch.zeros(2)), Masked).keys()) == list(made.keys())
    assert len(Batch.cat([made, extend(Batch(act=np.zeros(2)), Masked)])) == 4


def test_a_field_that_may_be_absent_reads_as_its_default_in_a_view():
    view = validate(Batch(act=np.zeros(2)), Masked)
    assert view.mask is None
    assert view[:1].mask is None
    assert "mask" not in view
