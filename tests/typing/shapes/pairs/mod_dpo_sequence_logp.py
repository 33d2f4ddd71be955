"""Direct preference optimisation from policy and reference logits."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def token_logps(logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T-1"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    return logp.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def sequence_logps(
    logits: Float[Tensor, "B T V"], ids: Int[Tensor, "B T"], completion: Bool[Tensor, "B T"]
) -> Float[Tensor, "B"]:
    per_token = token_logps(logits, ids)
    return (per_token * completion[:, 1:]).sum(dim=-1)
    # wrong: return (per_token * completion[:, 1:]).sum(dim=0)  # WRONG


def dpo_loss(
    pi_chosen: Float[Tensor, "B"],
    pi_rejected: Float[Tensor, "B"],
    ref_chosen: Float[Tensor, "B"],
    ref_rejected: Float[Tensor, "B"],
    beta: float = 0.1,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    margin = beta * ((pi_chosen - ref_chosen) - (pi_rejected - ref_rejected))
    accuracy = (margin > 0).float().mean()
    return -F.logsigmoid(margin).mean(), accuracy


def main() -> None:
    torch.manual_seed(0)
    B, T, V = 4, 9, 30
    logps = []
    for _ in range(2):
        ids = torch.randint(0, V, (B, T))
        completion = (torch.arange(T) >= 3).expand(B, T)
        policy = torch.randn(B, T, V)
        reference = policy + 0.1 * torch.randn(B, T, V)
        logps.append((sequence_logps(policy, ids, completion), sequence_logps(reference, ids, completion)))
        # wrong: logps.append((sequence_logps(policy, ids, completion), sequence_logps(reference, ids, completion)))  # WRONG
    (pc, rc), (pr, rr) = logps
    loss, acc = dpo_loss(pc, pr, rc, rr)
    print("dpo", loss.item(), "acc", acc.item())


if __name__ == "__main__":
    main()
