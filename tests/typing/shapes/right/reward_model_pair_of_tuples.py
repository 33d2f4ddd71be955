import torch
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped
from torch import Tensor, nn


class RewardModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(10, 6), nn.Linear(6, 1, bias=False)

    @jaxtyped(typechecker=beartype)
    def forward(self, ids: Int[Tensor, "N L"]) -> Float[Tensor, "N"]:
        scores = self.head(self.emb(ids))[..., 0]
        return scores[:, -1]

def margin(model: RewardModel, *pairs: Int[Tensor, "N _"]) -> Float[Tensor, "N"]:
    good, bad = (model(p) for p in pairs)
    return good - bad

def main() -> None:
    a, b = torch.randint(10, (4, 3)), torch.randint(10, (4, 8))
    assert margin(RewardModel(), a, b).shape == (4,)


if __name__ == "__main__":
    main()
