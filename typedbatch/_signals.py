"""Errors of signal handlers, which come out of whatever code is running then."""

from __future__ import annotations

from types import FrameType


def from_outside(error: BaseException) -> bool:
    """True when a signal handler raised the error: it says nothing about the data that was looked at just then.

    Python runs a signal handler between two instructions of whatever code is running, so its error comes out of that
    code as if it were its own. It is told by the frame that was interrupted: the handler is given it.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        interrupted, traceback = traceback.tb_frame, traceback.tb_next
        if _was_given(traceback.tb_frame, interrupted):
            return True
    return False


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    for value in frame.f_locals.values():
        if value is interrupted or (type(value) is tuple and any(one is interrupted for one in value)):  # *args
            return True
    return False
