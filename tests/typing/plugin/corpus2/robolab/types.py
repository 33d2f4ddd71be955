"""Records for what sensors and datasets give."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from typedbatch import BatchProtocol, BatchRecord

F32 = NDArray[np.float32]


class Proprio(BatchRecord):
    q: F32
    dq: F32


class Vision(BatchRecord):
    rgb: F32
    depth: F32 | None = None


class Sensors(BatchRecord):
    proprio: Proprio
    vision: Vision


class Demo(BatchRecord):
    obs: Sensors
    act: F32


class HasProprio(BatchProtocol, Protocol):
    @property
    def proprio(self) -> Proprio: ...


class Labelled(BatchProtocol, Protocol):
    @property
    def features(self) -> NDArray[Any]: ...
    @property
    def act(self) -> NDArray[Any]: ...
