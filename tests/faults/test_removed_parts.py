"""Whatever keeps a store from being opened is found by a verification: each part removed in turn.

The directory of a changelog was not copied, and an `engine.json` was not: the stores were refused,
and `verify` said that nothing was wrong, since it looked at what is there and not for what is not.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import StateStoreError
from statestores.files.directory_lock import LOCK_FILE
from statestores.reading.partition_reader import PartitionReader
from statestores.registry import load_backend
from statestores.verification import verify

_STORE = ss.KeyValue("counts")
_CONTENT = {b"%d" % number: b"%d" % (number * number) for number in range(5)}


def _make(path: Path, backend: str) -> None:
    """Leave a state root with a snapshot, changes before and after it, and the engine."""
    root = ss.StateRoot.create(path)
    root.add_store(_STORE, partitions=1)
    with ss.open_logged_store(root, _STORE.name, backend=backend) as logged:
        for key, value in _CONTENT.items():
            logged.store.put(key, value)
            logged.commit()
            if key == b"2":
                native = load_backend(backend).capabilities.native_checkpoint
                logged.snapshot(snapshot_format="native" if native else "arrow")


def _parts(root: Path) -> Iterator[Path]:
    """Yield each file and directory, relative to *root*, but locks, which nobody needs."""
    for path in sorted(root.rglob("*")):
        if path.name != LOCK_FILE:
            yield path.relative_to(root)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_refused(root: Path) -> bool:
    """Whether the store is refused; if it is opened, it holds all that it did, or nothing."""
    try:
        with ss.open_logged_store(root, _STORE.name) as logged:
            assert dict(logged.store.range()) in (_CONTENT, {})
    except StateStoreError:
        return True
    return False


def _is_told(root: Path) -> bool:
    """Whether a verification has a failure, or is one."""
    try:
        return any(finding.is_failure for finding in verify(root))
    except StateStoreError:
        return True


def _read(root: Path) -> dict[bytes, bytes]:
    """Read the partition from its files; nothing where that is an error of ours."""
    rows: dict[bytes, bytes] = {}
    with suppress(StateStoreError):
        place = ss.StateRoot.open(root).partition(_STORE.name, 0)
        for batch in PartitionReader(place, _STORE).rows(typed=False):
            rows |= zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return rows


@pytest.mark.spec("LGS-8", "LAY-23", "LAY-29")
@pytest.mark.parametrize("backend", ["rocksdb", "leveldb", "sqlite"])
def test_what_an_opening_misses_a_verification_finds(backend: str, tmp_path: Path) -> None:
    """Each file and each directory alone, of a closed store."""
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    _make(whole, backend)
    untold, refused = [], 0
    for part in _parts(whole):
        shutil.copytree(whole, copy)
        _remove(copy / part)
        is_told = _is_told(copy)
        assert _read(copy).items() <= _CONTENT.items()
        if _is_refused(copy):
            refused += 1
            if not is_told:
                untold.append(str(part))
        shutil.rmtree(copy)

    assert untold == []
    assert refused > 3
