"""What the tests of logs in object stores share."""

import itertools
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import statestores as ss
from statestores.object_log import catching_up, documents, folding, frames, pieces, writes
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.log import ObjectLog
from statestores.storage import open_storage

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

from s3 import Bucket, FaultyProxy, Server  # noqa: E402  # after the path to it

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    """A root in the memory of this process that nobody else uses."""
    return f"memory://tests/{next(_numbers)}"


@pytest.fixture
def log(url: str) -> ObjectLog:
    """The empty log of a key-value store with two partitions."""
    made = ObjectLog(storage=open_storage(url), store="store", store_kind="key-value", partitions=2)
    made.create()
    return made


@pytest.fixture
def root(url: str) -> ss.StateRoot:
    """A state root with the typed key-value store ``counts``."""
    state = ss.StateRoot.create(url)
    state.add_store(ss.KeyValue("counts", key=ss.utf8, value=ss.int64), partitions=2)
    return state


@pytest.fixture
def _parses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of schedules read the same documents and frames again and again."""
    monkeypatch.setattr(Checkpoint, "unpack", lru_cache(256)(Checkpoint.unpack))
    entry = lru_cache(1024)(documents.unpack_root_entry)
    monkeypatch.setattr(catching_up, "unpack_root_entry", entry)
    frame = lru_cache(1024)(frames.read_entry)
    for reader in (catching_up, folding, pieces, writes):
        monkeypatch.setattr(reader, "read_entry", frame)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """An S3 server in one thread, which was asked whether it keeps its word."""
    with Server() as running:
        running.probe()
        yield running


@pytest.fixture
def bucket(server: Server) -> Bucket:
    """An empty bucket."""
    return server.bucket()


@pytest.fixture
def proxy(server: Server) -> Iterator[FaultyProxy]:
    """A way to the server that can go wrong."""
    with FaultyProxy(server.port) as running:
        yield running
