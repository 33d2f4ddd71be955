"""Assertions and batches that several files of this folder use."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import torch
from torch.distributions import Normal

from typedbatch import Batch


def assert_array(value: object, expected: object, dtype: object = None) -> None:
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, expected)
    if dtype is not None:
        assert value.dtype == np.dtype(dtype)


def assert_shows(value: object, text: str) -> None:
    shown = [line.rstrip() for line in repr(value).splitlines()]
    assert shown == [line.rstrip() for line in dedent(text).strip().splitlines()]


def assert_identical(one: Any, two: Any, path: str = "batch") -> None:
    """Names in the same order, kinds, dtypes, shapes and values; NaN equals NaN. Asks nothing of Batch's own ``==``."""
    assert type(one) is type(two), path
    if isinstance(one, Batch):
        assert list(one.__dict__) == list(two.__dict__), path
        for name in one.__dict__:
            assert_identical(one.__dict__[name], two.__dict__[name], f"{path}.{name}")
    elif isinstance(one, dict | list):
        items, others = (value.items() if isinstance(value, dict) else enumerate(value) for value in (one, two))
        for (name, item), (key, other) in zip(items, others, strict=True):
            assert name == key, path
            assert_identical(item, other, f"{path}.{name}")
    elif isinstance(one, np.ndarray | np.generic | torch.Tensor):
        assert one.dtype == two.dtype, path
        assert tuple(one.shape) == tuple(two.shape), path
        left, right = (x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in (one, two))
        np.testing.assert_array_equal(left, right, err_msg=path)
    elif isinstance(one, Normal):
        assert torch.equal(one.loc, two.loc), path
        assert torch.equal(one.scale, two.scale), path
    else:
        assert one == two or one is two, path


def rollout() -> Batch:
    return Batch(
        obs={"cam": np.arange(6.0).reshape(3, 2), "pos": [1, 2, 3]}, act=torch.tensor([0, 1, 2]), rew=[1.0, 2.0, 4.0]
    )
