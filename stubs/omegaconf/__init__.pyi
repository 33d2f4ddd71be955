from typing import Any

class DictConfig: ...

class OmegaConf:
    @staticmethod
    def create(obj: Any = None, parent: Any = None, flags: dict[str, bool] | None = None) -> DictConfig: ...
