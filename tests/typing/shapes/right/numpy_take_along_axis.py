import numpy as np
from beartype import beartype
from jaxtyping import Float, Int, jaxtyped


@jaxtyped(typechecker=beartype)
def chosen(q: Float[np.ndarray, "N A"], act: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    return np.take_along_axis(q, act[:, None], axis=1)[:, 0]

@jaxtyped(typechecker=beartype)
def sorted_rows(q: Float[np.ndarray, "N A"]) -> Float[np.ndarray, "N A"]:
    order = np.argsort(-q, axis=-1)
    top = np.take_along_axis(q, order, axis=-1)
    return top - top.max(axis=-1, keepdims=True)

def main() -> None:
    q = np.random.default_rng(0).normal(size=(4, 3))
    assert chosen(q, q.argmax(1)).shape == (4,) and sorted_rows(q).shape == (4, 3)


if __name__ == "__main__":
    main()
