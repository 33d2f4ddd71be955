from typing import Any

class EpisodeBuffer:
    def __init__(
        self,
        *,
        seed: int | None = ...,
        observations: Any = ...,
        actions: Any = ...,
        rewards: Any = ...,
        terminations: Any = ...,
        truncations: Any = ...,
        infos: dict[str, Any] | None = ...,
    ) -> None: ...
