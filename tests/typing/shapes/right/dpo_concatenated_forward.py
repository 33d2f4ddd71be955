import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


def sequence_logp(logits: Float[Tensor, "B L V"], ids: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B"]:
    labels, keep = ids[:, 1:].clone(), mask[:, 1:]
    labels[~keep] = 0
    logp = logits[:, :-1].log_softmax(-1).gather(2, labels.unsqueeze(2)).squeeze(2)
    return (logp * keep).sum(-1)

def dpo(model: nn.Module, chosen: Int[Tensor, "N L"], rejected: Int[Tensor, "N L"], ref_margin: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    ids = torch.cat([chosen, rejected], dim=0)
    logp = sequence_logp(model(ids), ids, ids != 0)
    n = chosen.shape[0]
    good, bad = logp[:n], logp[n:]
    also_good, also_bad = logp.chunk(2)
    assert torch.equal(good - bad, also_good - also_bad)
    return -F.logsigmoid(0.1 * (good - bad - ref_margin)).mean()

def main() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    ids = torch.randint(9, (3, 6))
    assert dpo(model, ids, ids.flip(1), torch.zeros(3)).shape == ()


if __name__ == "__main__":
    main()
