"""A PostgreSQL server for the tests, private to this run."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_START_SECONDS = 60.0

# Tests of soak runs alone, so many that collecting them to be skipped would be felt.
collect_ignore = [] if os.environ.get("STATESTORES_SOAK") == "1" else ["test_postgresql_stores.py"]


@dataclass(frozen=True)
class PostgreSQLServer:
    """A running server that listens on a socket in *directory* and nowhere else."""

    directory: Path
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """The URL of its one database."""
        return f"postgresql://statestores@/postgres?host={self.directory}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQLServer]:
    """Start a server without fsync and with a new data directory; stop it at the end."""
    programs = _find_programs()
    pytest.importorskip("psycopg2", reason="the driver for PostgreSQL is not installed")
    # Not below tmp_path: the path of a socket has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="statestores-"))
    try:
        # A server refuses to run as root.
        user = _unprivileged_user() if os.geteuid() == 0 else None
        if user is not None:
            os.chown(directory, user.pw_uid, user.pw_gid)
        process = _start(programs, directory, user)
        try:
            yield PostgreSQLServer(directory, process)
        finally:
            process.terminate()
            try:
                process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def postgresql_url(postgresql_server: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the server's URL, and let engines find it by themselves, in subprocesses as well."""
    monkeypatch.setenv("STATESTORES_POSTGRESQL_URL", postgresql_server.url)
    return postgresql_server.url


def _find_programs() -> Path:
    """Return the folder of the server's programs; skip or fail without them."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    # Debian keeps them off the path.
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    reason = "no PostgreSQL server is installed: no initdb on the path or in /usr/lib/postgresql"
    if "postgresql" in os.environ.get("STATESTORES_REQUIRE_BACKENDS", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)


def _unprivileged_user() -> pwd.struct_passwd:
    """Return a user that the server may run as."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("a PostgreSQL server refuses to run as root, and there is no user 'nobody'")


def _start(
    programs: Path, directory: Path, user: pwd.struct_passwd | None
) -> "subprocess.Popen[bytes]":
    """Create a database cluster in *directory* and start its server."""
    uid, gid = (user.pw_uid, user.pw_gid) if user else (None, None)
    data, log = directory / "data", directory / "log"
    with log.open("wb") as output:
        subprocess.run(
            [
                programs / "initdb",
                *("-D", data, "-U", "statestores", "-A", "trust", "-E", "UTF8"),
                *("--locale=C", "--no-sync"),
            ],
            check=True,
            cwd=directory,
            stdout=output,
            stderr=output,
            user=uid,
            group=gid,
            extra_groups=[] if user else None,
        )
        process = subprocess.Popen(
            [
                programs / "postgres",
                *("-D", data, "-k", directory, "-c", "listen_addresses="),
                *("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB"),
                # Each open scan and snapshot has one; a test of facades holds hundreds.
                *("-c", "max_connections=500"),
            ],
            cwd=directory,
            stdout=output,
            stderr=output,
            user=uid,
            group=gid,
            extra_groups=[] if user else None,
        )
    deadline = time.monotonic() + _START_SECONDS
    ready = [str(programs / "pg_isready"), "-q", "-h", str(directory)]
    while subprocess.run(ready, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            pytest.fail(f"the PostgreSQL server did not start:\n{log.read_text()}")
        time.sleep(0.05)
    return process
