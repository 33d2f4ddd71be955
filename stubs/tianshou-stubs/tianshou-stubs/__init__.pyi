"""The names of the package itself: a partial stub package needs each ``__init__.pyi`` on the way to a stub."""

from tianshou import algorithm, data, env, exploration, trainer, utils

__version__: str

__all__ = [
    "algorithm",
    "data",
    "env",
    "exploration",
    "trainer",
    "utils",
]
