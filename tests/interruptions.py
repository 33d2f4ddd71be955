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


def interrupted(call: Callable[[], Any], moment: int, *, bytecodes_but_in: str | None = None) -> int:
    """Call a function, raise an exception at one of its moments, and return the number of moments before it.

    Args:
        call: Function to call.
        moment: Number of the moment, from 0; above the last one, the call is not interrupted.
        bytecodes_but_in: None if the moments are before each line of the package. Otherwise they are also before each
            bytecode of a line, except in the folder of the package that has this name.
    """
    moments = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal moments
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return None
        if bytecodes_but_in is not None:
            frame.f_trace_opcodes = not file.startswith(os.path.join(PACKAGE, bytecodes_but_in))
        if event in ("line", "opcode"):
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
