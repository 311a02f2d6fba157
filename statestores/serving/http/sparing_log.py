"""Warnings of uvicorn's about what strangers send: one a minute, however many there would be.

Each malformed request is a warning, and each that asks for WebSockets is two. Whoever reaches the
port, without a token, could fill the disk that the log is on (SRV-28).
"""

import logging
from time import monotonic
from typing import Final

SECONDS_A_WARNING: Final = 60.0
"""How long further warnings are only counted."""


class SparingLogger(logging.Logger):
    """Uvicorn's logger, for one server; its errors are those of the server, and are not limited."""

    def __init__(self, name: str, seconds: float = SECONDS_A_WARNING) -> None:
        """Hand on what is said to the logger *name*."""
        super().__init__(name, logging.WARNING)
        self.parent = logging.getLogger(name)
        self._seconds = seconds
        self._silent_until = 0.0
        self._untold = 0

    def warning(self, msg: object, *args: object, **how: object) -> None:
        """Say *msg*, with how many were not said before; or only count it."""
        now = monotonic()
        if now < self._silent_until:
            self._untold += 1
            return
        untold, self._untold, self._silent_until = self._untold, 0, now + self._seconds
        more = f" ({untold} further warnings were not logged)" if untold else ""
        super().warning(f"{msg}{more}", *args, **how)  # type: ignore[arg-type]  # as they came
