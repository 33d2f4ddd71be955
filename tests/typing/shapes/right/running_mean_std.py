import numpy as np
from jaxtyping import Float, Float32


class RunningMeanStd:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = 1e-4

    def update(self, x: Float[np.ndarray, "N *obs"]) -> None:
        mean, var, n = x.mean(axis=0), x.var(axis=0), x.shape[0]
        delta, total = mean - self.mean, self.count + n
        m2 = self.var * self.count + var * n + np.square(delta) * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.var, self.count = m2 / total, total

    def __call__(self, x: Float32[np.ndarray, "N *obs"]) -> Float32[np.ndarray, "N *obs"]:
        return ((x - self.mean) / np.sqrt(self.var + 1e-8)).astype(np.float32)

def main() -> None:
    for shape in [(), (3,), (4, 4)]:
        rms = RunningMeanStd(shape)
        x = np.random.default_rng(0).normal(size=(10, *shape)).astype(np.float32)
        rms.update(x)
        assert rms(x).shape == (10, *shape) and rms(x).dtype == np.float32


if __name__ == "__main__":
    main()
