"""Every method of Tianshou's Batch has its name, its parameters and its defaults here."""

from __future__ import annotations

import inspect

import pytest

from typedbatch import Batch

PARAMETERS = {
    "get": ["key", "default"],
    "pop": ["key", "default"],
    "get_keys": [],
    "keys": [],
    "values": [],
    "items": [],
    "update": [],
    "to_dict": ["recursive"],
    "to_list_of_dicts": [],
    "to_numpy": [],
    "to_numpy_": [],
    "to_torch": ["dtype", "device"],
    "to_torch_": ["dtype", "device"],
    "apply_values_transform": ["values_transform", "inplace"],
    "cat": ["batches"],
    "cat_": ["batches"],
    "stack": ["batches", "axis"],
    "stack_": ["batches", "axis"],
    "empty": ["batch", "index"],
    "empty_": ["index"],
    "split": ["size", "shuffle", "merge_last"],
    "set_array_at_key": ["arr", "key", "index", "default_value"],
    "isnull": [],
    "hasnull": [],
    "dropnull": [],
    "replace_empty_batches_by_none": [],
    "to_at_least_2d": [],
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_method_takes_tianshous_parameters_by_name(name):
    parameters = inspect.signature(getattr(Batch, name)).parameters
    usable = [p for p in parameters if parameters[p].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p != "self"]
    assert usable[: len(PARAMETERS[name])] == PARAMETERS[name]


@pytest.mark.parametrize(
    ("name", "parameter", "default"),
    [
        ("split", "shuffle", True),
        ("split", "merge_last", False),
        ("to_torch", "dtype", None),
        ("to_torch", "device", "cpu"),
        ("to_dict", "recursive", True),
        ("apply_values_transform", "inplace", False),
        ("stack", "axis", 0),
        ("empty", "index", None),
        ("set_array_at_key", "index", None),
        ("set_array_at_key", "default_value", None),
    ],
)
def test_a_parameter_has_tianshous_default(name, parameter, default):
    assert inspect.signature(getattr(Batch, name)).parameters[parameter].default == default


@pytest.mark.parametrize("name", ["cat", "stack", "empty"])
def test_static_methods_are_static(name):
    assert isinstance(inspect.getattr_static(Batch, name), staticmethod)
