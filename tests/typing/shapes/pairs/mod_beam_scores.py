"""Batched beam search over a toy bigram language model."""
from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def step_logp(table: Float[Tensor, "V V"], last: Int[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
    return table[last].log_softmax(dim=-1)


def expand_beams(
    seqs: Int[Tensor, "B K L"],
    scores: Float[Tensor, "B K"],
    logp: Float[Tensor, "B K V"],
) -> tuple[Int[Tensor, "B K L+1"], Float[Tensor, "B K"]]:
    B, K, V = logp.shape
    total = scores.unsqueeze(-1) + logp
    # wrong: total = scores.unsqueeze(1) + logp  # WRONG
    scores, flat = total.view(B, K * V).topk(K, dim=-1)
    beam, token = flat // V, flat % V
    parents = seqs.gather(1, beam.unsqueeze(-1).expand(-1, -1, seqs.shape[-1]))
    return torch.cat([parents, token.unsqueeze(-1)], dim=-1), scores


def beam_search(
    table: Float[Tensor, "V V"], start: Int[Tensor, "B"], beams: int, steps: int
) -> tuple[Int[Tensor, "B L"], Float[Tensor, "B"]]:
    seqs = start[:, None, None].repeat(1, beams, 1)
    scores = torch.full((start.shape[0], beams), float("-inf"))
    scores[:, 0] = 0.0
    for _ in range(steps):
        seqs, scores = expand_beams(seqs, scores, step_logp(table, seqs[:, :, -1]))
    return seqs[:, 0], scores[:, 0]


def main() -> None:
    torch.manual_seed(0)
    vocab = 12
    table = torch.randn(vocab, vocab)
    best, score = beam_search(table, torch.tensor([0, 3, 5]), beams=4, steps=6)
    for row, s in zip(best.tolist(), score.tolist()):
        print(f"{s:.3f}", row)


if __name__ == "__main__":
    main()
