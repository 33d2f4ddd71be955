"""Places in the user's code."""

from __future__ import annotations

import sys
from os.path import basename, dirname, sep
from types import FrameType

import torch

_LIBRARIES = (
    dirname(dirname(__file__)) + sep,
    dirname(torch.__file__) + sep,
    dirname(dirname(torch.__file__)) + sep + "jaxtyping" + sep,
    dirname(dirname(torch.__file__)) + sep + "numpy" + sep,
    "<frozen",
    "<string>",
)
_STDLIB = (sep + "contextlib.py", sep + "functools.py", sep + "threading.py")


def user_frame() -> FrameType | None:
    """Return the innermost frame that is not of typedbatch, torch or numpy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and not file.endswith(_STDLIB):
            return frame
        frame = frame.f_back
    return None


def here() -> str:
    """Return the file and line of the user's code that runs: ``"ppo.py:147"``."""
    frame = user_frame()
    return f"{basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def function_here() -> str:
    """Return the name of the user's function that runs."""
    frame = user_frame()
    return frame.f_code.co_name if frame is not None else ""
