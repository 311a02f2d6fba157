"""Engines that are made of a changelog while somebody else takes it over and compacts it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import FencedError
from statestores.logged_store.object_opening import restore_from_objects
from statestores.storage.obstore_driver import ObstoreStorage

Written = Callable[[dict[str, int]], None]


@pytest.fixture
def write(root: ss.StateRoot, tmp_path: Path) -> Written:
    """What commits rows to partition 0, from a machine of its own."""

    def commit(rows: dict[str, int]) -> None:
        with ss.open_logged_store(
            root, "counts", 0, directory=tmp_path / "other", backend="memory"
        ) as counts:
            for key, value in rows.items():
                counts.store.put(key, value)
            counts.commit()

    return commit


@pytest.fixture
def _overtaken(root: ss.StateRoot, write: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the second of two segments compacted with what comes after it, as it is read."""
    log, read = root.object_log("counts"), ObstoreStorage.read
    write({"a": 1})
    log.fold()
    write({"b": 2})
    log.fold()
    segments: list[str] = []

    def overtaken(self: Any, name: str, known_tag: str | None = None) -> Any:
        if "/segments/" in name:
            segments.append(name)
            if len(segments) == 2:
                write({"b": 3})
                log.compact()
        return read(self, name, known_tag)

    monkeypatch.setattr(ObstoreStorage, "read", overtaken)


@pytest.mark.spec("OBJ-57", "OBJ-34")
@pytest.mark.usefixtures("_overtaken")
def test_a_restored_engine_holds_a_commit(root: ss.StateRoot, tmp_path: Path) -> None:
    """`statestores restore --local` beside a writer and a compaction left what never was.

    It read up to the end that it had seen, of a changelog that had been compacted beyond it: what a
    later change makes void was missing, and the later change was not there yet. Now it goes on to
    where the changelog is whole.
    """
    specification = root.store("counts").specification
    done = restore_from_objects(
        root,
        specification,
        0,
        directory=tmp_path / "copy",
        backend="sqlite",
        options=None,
        progress=None,
    )

    assert (done.offset, done.changelog_rows) == (2, 2)
    copy: Any = ss.open_existing(tmp_path / "copy")
    with copy:
        assert dict(copy.range()) == {"a": 1, "b": 3}


@pytest.mark.spec("OBJ-57", "OBJ-10")
@pytest.mark.usefixtures("_overtaken")
def test_an_owner_that_was_overtaken_while_it_opened_shows_nothing(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """It opened a store that lacked a row which every commit had, and was told at its next one."""
    directory = tmp_path / "late"
    with pytest.raises(FencedError, match="while it was being opened"):
        ss.open_logged_store(root, "counts", 0, directory=directory, backend="sqlite")
    with ss.open_logged_store(root, "counts", 0, directory=directory, backend="sqlite") as counts:
        assert dict(counts.store.range()) == {"a": 1, "b": 3}
