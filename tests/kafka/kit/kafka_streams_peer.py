"""The same application in Kafka Streams, as a process of tools/kafka_peer.py."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_PROGRAM = Path(__file__).parents[3] / "tools" / "kafka_peer.py"


class StreamsPeer:
    """Runs until the context ends, when it commits and leaves the group."""

    def __init__(self, address: str, name: str, state: Path) -> None:
        """Start it."""
        state.mkdir(parents=True)
        self._log = state / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), "Peer", address, name, str(state)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        assert self._process.poll() is None, self._log.read_text("utf-8", "replace")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

        assert kind is not None or self._process.returncode == 0
