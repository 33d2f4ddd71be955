from typing import Any

from numpy.typing import NDArray
from tensordict import TensorDict

class DataProto:
    batch: TensorDict | None
    non_tensor_batch: dict[str, NDArray[Any]]
    meta_info: dict[str, Any]
    def __init__(
        self,
        batch: TensorDict | None = ...,
        non_tensor_batch: dict[str, NDArray[Any]] = ...,
        meta_info: dict[str, Any] = ...,
    ) -> None: ...
