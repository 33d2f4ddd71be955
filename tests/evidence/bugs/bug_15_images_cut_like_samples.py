"""Pixel_values has a row per image, and is cut by the number of samples."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from typedbatch import BatchRecord

PROJECT = "liquid-finetune on TRL"
LINK = "https://github.com/Liquid4All/liquid-finetune/pull/29"
CAUGHT_BY = "operation"

BATCH = {
    "ids": torch.arange(4)[:, None],
    "num_images": torch.tensor([2, 2, 0, 2]),
    "pixels": torch.arange(6.0)[:, None],
}


def broken() -> str:
    parts = [{k: v[i : i + 2] for k, v in BATCH.items()} for i in (0, 2)]
    assert [len(p["pixels"]) for p in parts] == [2, 2] and parts[1]["pixels"].ravel().tolist() == [2.0, 3.0]
    return "4 images wanted, 2 there; the second half has the first half's images, and two are lost"


class Prompts(BatchRecord):
    ids: Int[Tensor, "N T"]
    num_images: Int[Tensor, "N"]
    pixels: Float[Tensor, "images D"]


def typed() -> object:  # pixels: Ragged[Images] is what rows take whole
    return [*Prompts(**BATCH).split(2, shuffle=False)]
