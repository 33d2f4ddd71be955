import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def rotation(q: Float[Tensor, "N 4"]) -> Float[Tensor, "N 3 3"]:
    w, x, y, z = torch.unbind(q / q.norm(dim=1, keepdim=True), dim=1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]
    return torch.stack(rows, dim=-1).reshape(-1, 3, 3)

def main() -> None:
    r = rotation(torch.randn(5, 4))
    assert torch.allclose(r @ r.mT, torch.eye(3).expand(5, 3, 3), atol=1e-5)


if __name__ == "__main__":
    main()
