"""Conversion of single values of any kind between numpy and torch, by functions with the names of Tianshou's."""

from typedbatch._ops.conversion import to_numpy as to_numpy
from typedbatch._ops.conversion import to_torch as to_torch
from typedbatch._ops.conversion import to_torch_as as to_torch_as
