"""What typedbatch uses of minari, whose types are not marked as such."""

from collections.abc import Iterator
from typing import Any

from minari.data_collector import EpisodeBuffer

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

def create_dataset_from_buffers(
    dataset_id: str, buffer: list[EpisodeBuffer], env: Any = ..., **options: Any
) -> MinariDataset: ...
