import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def distill(student: Float[Tensor, "N V"], teacher: Float[Tensor, "N V"]) -> Float[Tensor, ""]:
    soft = F.cross_entropy(student / 2, (teacher / 2).softmax(dim=1))
    kl = F.kl_div(student.log_softmax(1), teacher.log_softmax(1), reduction="none", log_target=True).sum(1)
    hard = F.cross_entropy(student, teacher.argmax(1), weight=torch.ones(student.size(1)))
    return soft + kl.mean() + hard

def main() -> None:
    assert distill(torch.randn(3, 5), torch.randn(3, 5)).shape == ()


if __name__ == "__main__":
    main()
