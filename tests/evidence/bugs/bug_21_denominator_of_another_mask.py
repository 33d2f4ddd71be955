"""Tokens of truncated rows leave the numerator, and stay in the count made before."""

import torch

PROJECT = "TRL"
LINK = "https://github.com/huggingface/trl/issues/6369"
CAUGHT_BY = ""


def broken() -> str:
    mask = torch.ones(2, 4)
    num_items = mask.sum()  # counted first
    mask = mask * torch.tensor([[1.0], [0.0]])  # then the truncated row is masked
    loss = (torch.ones(2, 4) * mask).sum() / num_items
    assert loss == 0.5
    return "loss 0.5 instead of 1.0"
