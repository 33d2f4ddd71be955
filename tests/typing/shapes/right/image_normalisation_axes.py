import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float32, UInt8, jaxtyped
from torch import Tensor


MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)

@jaxtyped(typechecker=beartype)
def hwc(img: UInt8[np.ndarray, "N H W 3"]) -> Float32[np.ndarray, "N 3 H W"]:
    x = img.astype(np.float32) / 255 - MEAN
    return x.transpose(0, 3, 1, 2)

@jaxtyped(typechecker=beartype)
def chw(img: UInt8[Tensor, "N 3 H W"]) -> Float32[Tensor, "N 3 H W"]:
    mean = torch.from_numpy(MEAN)
    return img.float().div(255) - mean[None, :, None, None]

def main() -> None:
    img = np.zeros((2, 4, 5, 3), np.uint8)
    a, b = hwc(img), chw(torch.from_numpy(img).permute(0, 3, 1, 2))
    assert a.shape == b.shape == (2, 3, 4, 5)


if __name__ == "__main__":
    main()
