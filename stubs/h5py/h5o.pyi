from typing import Any

class ObjInfo:
    @property
    def addr(self) -> int: ...

def get_info(loc: Any) -> ObjInfo: ...
