"""Right programs, of which nothing is reported: idioms by which a field, a name or a batch is another than it seems."""

from __future__ import annotations

import argparse
import sys

import numpy as np

from typedbatch import Batch


def exits(flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    else:
        sys.exit(1)
    return batch.adv


def need(flag):
    if not flag:
        raise ValueError("flag")


def raises_in_a_call(flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    need(flag)
    return batch.adv


def ends_by_an_error(parser: argparse.ArgumentParser, flag):
    batch = Batch(obs=np.zeros(2))
    if flag:
        batch.adv = np.ones(2)
    else:
        parser.error("flag")
    return batch.adv


exits(len(sys.argv) > 0)
raises_in_a_call(len(sys.argv) > 0)
ends_by_an_error(argparse.ArgumentParser(), len(sys.argv) > 0)
