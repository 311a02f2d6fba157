"""The lock on a table: an advisory lock of PostgreSQL, held by the session that writes.

Session and lock end together, so a writer that has lost its connection has lost the lock, and
cannot write either.
"""

import hashlib
import os
import re
import socket
import time
from datetime import UTC, datetime

from sqlalchemy.engine import Connection

from statestores.errors import StoreLockedError

_NAME_BYTES = 63
"""PostgreSQL cuts an application's name at this length."""

_OWNER = re.compile(r"statestores (?P<pid>\d+)@(?P<host>\S+) (?P<since>\S+)")

_GRACE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05

_HOLDER = """
    SELECT activity.application_name
    FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
    WHERE lock.locktype = 'advisory' AND lock.granted AND lock.objsubid = 1
      AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (lock.classid::bigint << 32 | lock.objid::bigint) = %s
"""


def application_name() -> str:
    """Return what this process calls itself on the server, for the message to others."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    pid = os.getpid()
    rest = len(f"statestores {pid}@ {since}")
    return f"statestores {pid}@{_host()[: _NAME_BYTES - rest]} {since}"


def lock_table(connection: Connection, table: str, path: str) -> None:
    """Lock *table* for the lifetime of *connection*.

    The server takes a moment to notice that the client of a session has died. So when the owner
    is a dead process of this host, we wait for its session to end.

    Raises:
        StoreLockedError: The table is locked, by another process or another engine in this one.
    """
    with connection.begin():
        schema = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
    digest = hashlib.sha256(f"statestores table {schema}.{table}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    deadline = time.monotonic() + _GRACE_SECONDS
    while (holder := _try_lock(connection, key)) is not None:
        owner = _OWNER.fullmatch(holder)
        gone = not holder or (owner is not None and _is_dead(owner["pid"], owner["host"]))
        if not gone or time.monotonic() > deadline:
            who = (
                f"in process {owner['pid']} on {owner['host']!r} since {owner['since']}"
                if owner
                else f"in a session that calls itself {holder!r}"
            )
            raise StoreLockedError(
                f"the table {table!r} of {path!r} is open {who}; close it there first, or read a "
                "snapshot"
            )
        time.sleep(_PAUSE_SECONDS)


def unlock_tables(connection: Connection) -> None:
    """Give up the lock now: the server takes a moment to notice the end of a session (ENG-19)."""
    with connection.begin():
        connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")


def _try_lock(connection: Connection, key: int) -> str | None:
    """Take the lock and return ``None``, or return what its holder calls itself.

    That is empty when the holder has gone meanwhile. It runs in a transaction of its own, since the
    server shows the same sessions throughout one.
    """
    with connection.begin():
        if connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (key,)).scalar_one():
            return None
        return connection.exec_driver_sql(_HOLDER, (key,)).scalar() or ""


def _is_dead(pid: str, host: str) -> bool:
    """Whether the process *pid* ran on this host and no longer does."""
    if not _host().startswith(host):
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is alive, under another user
        return False
    return False


def _host() -> str:
    return socket.gethostname()
