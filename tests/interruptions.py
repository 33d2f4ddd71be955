"""Exceptions at a chosen moment of a call, as ``KeyboardInterrupt`` may come."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import typedbatch

PACKAGE = os.path.dirname(typedbatch.__file__)


class Interruption(BaseException):
    """Stands for ``KeyboardInterrupt``."""


def interrupted(call: Callable[[], Any], moment: int) -> int:
    """Call a function, raise an exception before one of its lines in the package, and return the number of lines.

    Args:
        call: Function to call.
        moment: Number of the line, from 0; above the last one, the call is not interrupted.
    """
    moments = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal moments
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            moments += 1
            if moments > moment:
                raise Interruption  # which also ends the tracing
        return trace

    sys.settrace(trace)
    try:
        call()
    except Interruption:
        pass
    finally:
        sys.settrace(None)
    return moments
