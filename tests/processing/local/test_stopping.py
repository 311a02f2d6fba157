"""A signal comes in the middle of anything, also in the middle of waiting for it."""

import sys
from types import FrameType
from typing import Any

from statestores.stopping import StopRequest


def test_a_request_is_made_at_any_line_of_a_wait() -> None:
    """The event that SIGTERM set had a lock, and the thread that waited for it could be its holder.

    The run then waited for itself, and had to be killed.
    """
    made: list[tuple[str, int]] = []

    def interrupt(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            request.set()
            made.append((frame.f_code.co_name, frame.f_lineno))
        return interrupt

    request = StopRequest()
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        assert request.wait(0.0)
    finally:
        sys.settrace(before)

    assert made[0][0] == "wait"
    assert request.is_set()
