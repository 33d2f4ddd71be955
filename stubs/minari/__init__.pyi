"""What typedbatch uses of minari, whose types are not marked as such."""

from collections.abc import Iterator
from typing import Any

class EpisodeData:
    id: int
    observations: Any
    actions: Any
    rewards: Any
    terminations: Any
    truncations: Any
    infos: dict[str, Any] | None

class MinariDataset:
    def __iter__(self) -> Iterator[EpisodeData]: ...
