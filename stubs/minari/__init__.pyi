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
    dataset_id: str,
    buffer: list[EpisodeBuffer],
    env: Any = ...,
    eval_env: Any = ...,
    algorithm_name: str | None = ...,
    author: str | set[str] | None = ...,
    author_email: str | set[str] | None = ...,
    code_permalink: str | None = ...,
    action_space: Any = ...,
    observation_space: Any = ...,
    ref_min_score: float | None = ...,
    ref_max_score: float | None = ...,
    expert_policy: Any = ...,
    num_episodes_average_score: int = ...,
    description: str | None = ...,
    data_format: str | None = ...,
    requirements: list[str] | None = ...,
    *,
    jpeg_encoding: bool = ...,
) -> MinariDataset: ...
