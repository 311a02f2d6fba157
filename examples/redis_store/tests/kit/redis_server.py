"""A Redis server of one's own: in a temporary directory, on a Unix socket, ended with the tests."""

import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

PROGRAM = shutil.which("redis-server")
"""``None`` where Redis is not installed: the tests are then skipped by name."""

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02


class RedisServer:
    """A server that keeps every commit: ``appendonly yes``, ``appendfsync always``."""

    def __init__(self, **settings: str) -> None:
        """Start it; *settings* are of its configuration, with underscores for hyphens."""
        # Not below pytest's directories: the path of a Unix socket has 107 bytes at most.
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self._settings = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The address, as the option of a store takes it."""
        return f"unix://{self.directory}/socket"

    def start(self) -> None:
        """Start the server over the files that the last one left, and wait until it answers."""
        assert PROGRAM is not None
        command = [PROGRAM, "--port", "0", "--unixsocket", f"{self.directory}/socket"]
        command += ["--dir", str(self.directory), "--daemonize", "no", "--loglevel", "warning"]
        for name, value in self._settings.items():
            command += [f"--{name.replace('_', '-')}", value]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text("utf-8", "replace"))
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.BusyLoadingError):
                return False

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it, and remove what it wrote."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
