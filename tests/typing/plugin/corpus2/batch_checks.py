"""A file of small checks on collate and transform functions, run one after the other, with unittest."""

import copy
import pickle
import unittest
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from typedbatch import Batch, BatchProtocol, BatchRecord, DynamicBatch, SchemaError, cat, checking, conforms, convert, stack, validate
from typedbatch.sequences import mask, pad


class Step(BatchRecord):
    obs: NDArray[np.float32]
    act: NDArray[np.int64]


class TorchStep(BatchRecord):
    obs: torch.Tensor
    act: torch.Tensor


class HasWeight(BatchProtocol, Protocol):
    @property
    def weight(self) -> NDArray[Any]: ...


def collate(items: Iterable[dict[str, Any]]) -> Batch:
    rows = [Batch(i) for i in items]
    for k, row in enumerate(rows):
        row.index = k
    out = stack(rows)
    assert (out.index == np.arange(len(rows))).all()
    #! misspelt-read: assert (out.idx == np.arange(len(rows))).all()
    return out


def total_weight(b: HasWeight) -> float:
    return float(b.weight.sum())


class BatchChecks(unittest.TestCase):
    def setUp(self) -> None:
        self.small = Batch(obs=np.ones((3, 2), np.float32), act=np.array([0, 1, 1]))
        self.ragged = [Batch(x=np.arange(n), y=np.ones(n)) for n in (2, 4, 1)]

    def test_collate(self) -> None:
        b = collate([{"a": 1.0, "b": [1, 2]}, {"a": 2.0, "b": [3, 4]}])
        b.c = b["a"] * 2
        self.assertEqual(b.c.tolist(), [2.0, 4.0])
        #! old-name: self.assertEqual(b.d.tolist(), [2.0, 4.0])
        with self.assertRaises(AttributeError):
            b["missing"].real

    def test_weights(self) -> None:
        b = Batch(self.small)
        b.weight = np.full(3, 0.5)
        self.assertAlmostEqual(total_weight(validate(b, HasWeight)), 1.5)
        #! wrong-argument: self.assertAlmostEqual(total_weight(validate(self.small, HasWeight)), 1.5)
        self.assertFalse(conforms(self.small, HasWeight))
        self.small.weight = np.zeros(3)
        self.assertEqual(self.small.weight.sum(), 0)

    def test_convert(self) -> None:
        step = Step(obs=self.small["obs"], act=self.small["act"])
        there = convert(step, TorchStep)
        self.assertEqual(there.obs.dtype, torch.float32)
        back = convert(there, Step)
        np.testing.assert_array_equal(back.act, step.act)
        logits = torch.nn.functional.one_hot(there.act, 2)
        #! wrong-kind: logits = torch.nn.functional.one_hot(step.act, 2)
        self.assertEqual(logits.shape, (3, 2))

    def test_pad(self) -> None:
        flat = cat(self.ragged)
        lengths = np.array([len(r) for r in self.ragged])
        padded = pad(flat, lengths)
        padded.mask = mask(lengths)
        self.assertEqual(padded.mask.sum(), lengths.sum())
        #! misspelt-read: self.assertEqual(padded.masks.sum(), lengths.sum())
        self.assertEqual(padded["x"].shape, (3, 4))

    def test_removal(self) -> None:
        b = Batch(a=[1, 2], b=[3, 4], c=Batch(d=[5, 6]))
        b.total = b.a + b.b + b.c.d
        #! misspelt-nested: b.total = b.a + b.b + b.c.e
        del b.a
        self.assertEqual(b.pop("b").tolist(), [3, 4])
        self.assertEqual(sorted(b.keys()), ["c", "total"])
        self.assertEqual(int(b.total.sum()), 21)
        #! removed-field: self.assertEqual(int(b.total.sum()), 14 + int(b.b.sum()))
        b.clear()
        self.assertTrue(b.is_empty())

    def test_copies(self) -> None:
        b = Batch(x=np.zeros(2))
        deep, shallow = copy.deepcopy(b), b.copy()
        b.x += 1
        self.assertEqual(deep.x.sum(), 0)
        self.assertEqual(shallow.x.sum(), 2)
        again = pickle.loads(pickle.dumps(b))
        again.y = again.x * 3
        self.assertEqual(again.y.tolist(), [3.0, 3.0])
        self.assertNotIn("y", b)

    def test_subtests(self) -> None:
        for dtype in (np.float32, np.float64):
            with self.subTest(dtype=dtype):
                b = Batch(v=np.ones(4, dtype))
                b.v2 = b.v**2
                t = b.to_torch()
                self.assertEqual(t.v2.dtype, torch.float32 if dtype is np.float32 else torch.float64)
                #! later-stage: self.assertEqual(t.v3.dtype, torch.float32 if dtype is np.float32 else torch.float64)
                t.v3 = t.v2 + t.v
                self.assertEqual(float(t.v3.sum()), 8.0)

    def test_report(self) -> None:
        with self.assertRaises(SchemaError) as caught:
            validate(Batch(obs=np.ones((2, 1), np.float32)), Step)
        self.assertIn("act", str(caught.exception))
        with checking("off"):
            loose = validate(Batch(obs=np.ones((2, 1), np.float32), act=np.zeros(2, int)), Step)
        self.assertEqual(loose.act.sum(), 0)

    def test_dynamic(self) -> None:
        d = DynamicBatch(a=np.ones(2))
        d.anything = d.a + 1
        self.assertEqual(d.anything.tolist(), [2.0, 2.0])


def main() -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(BatchChecks)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    if not result.wasSuccessful():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
