import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def clip_loss(img: Float[Tensor, "N D"], txt: Float[Tensor, "N D"], scale: Float[Tensor, ""]) -> Float[Tensor, ""]:
    img = img / img.norm(dim=-1, keepdim=True)
    txt = txt / txt.norm(dim=-1, keepdim=True)
    logits = scale.exp() * img @ txt.T
    labels = torch.arange(len(img))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

def main() -> None:
    loss = clip_loss(torch.randn(8, 4), torch.randn(8, 4), torch.tensor(0.0))
    assert loss.shape == () and loss.item() > 0


if __name__ == "__main__":
    main()
