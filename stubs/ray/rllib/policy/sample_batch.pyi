from collections.abc import Mapping
from typing import Any

class SampleBatch(dict[str, Any]):
    def __init__(
        self, columns: Mapping[str, Any] = ..., *, _zero_padded: bool = ..., _max_seq_len: int | None = ...
    ) -> None: ...

class MultiAgentBatch:
    policy_batches: dict[str, SampleBatch]
    count: int
    def __init__(self, policy_batches: Mapping[str, SampleBatch], env_steps: int) -> None: ...
