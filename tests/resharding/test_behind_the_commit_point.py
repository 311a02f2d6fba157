"""What fails once the new partitions count is no failure of the reshard."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from in_memory import new_url

import statestores as ss
from statestores.errors import CommitInDoubtError, StorageError
from statestores.failpoints import arm, disarm
from statestores.files.directory_lock import DirectoryLock
from statestores.resharding import reshard
from statestores.staging.write_intent import staging_directory
from statestores.state_root import StateRoot
from statestores.storage import Outcome
from statestores.storage.obstore_driver import ObstoreStorage

ONCE = "objects.reshard.ended"
NOTED = "reshard.noted"


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


@pytest.fixture
def directory(tmp_path: Path) -> StateRoot:
    """A state root in a directory, with the store ``kept`` of two partitions."""
    made = StateRoot.create(tmp_path / "from")
    made.add_store(ss.KeyValue("kept"), partitions=2)
    return made


def counts_and_warns(
    caplog: pytest.LogCaptureFixture,
    root: StateRoot,
    failpoint: str,
    fail: Callable[[], object],
    to: str | Path | None = None,
) -> None:
    """Reshard while everything from *failpoint* on fails; the new partitions count all the same."""
    arm(failpoint, fail, at=1)
    done = reshard(root, "kept", 3, to=to)

    assert done.partitions == 3
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith("the reshard of 'kept' counts, and what it leaves could not be")


@pytest.mark.spec("RSH-24")
def test_in_an_object_store(
    root: StateRoot,
    directory: StateRoot,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    subtests: pytest.Subtests,
) -> None:
    """An answer that was lost behind the end of the old log was raised, and the reshard counted.

    Its caller was told that the store is as it was, and was refused at the next opening; one that
    had brought a store to another root could not repeat it. Now the reshard returns, and a log
    message says what the next one has to remove.
    """

    def refuse(*_: object) -> None:
        raise StorageError("there is no answer")

    def no_answer() -> None:
        monkeypatch.setattr(ObstoreStorage, "list", refuse)

    to = new_url()
    for name, source, failpoint, target in (
        ("in place", root, ONCE, None),
        ("from a directory", directory, NOTED, to),
    ):
        with subtests.test(name), caplog.at_level(logging.WARNING):
            caplog.clear()
            counts_and_warns(caplog, source, failpoint, no_answer, target)
            monkeypatch.undo()
            assert root.storage is not None
            opened = StateRoot.open(target or root.storage.url)
            assert opened.store("kept").partitions == 3
            assert reshard(opened, "kept", 3).rows == ()


@pytest.mark.spec("RSH-24", "RSH-18")
def test_an_end_that_cannot_be_looked_at_is_in_doubt(
    root: StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry that ends the old log was there, and what was read behind it was not answered.

    That raised a `StorageError`, which says that the store is as it was; and it counted.
    """
    create, read, ended = ObstoreStorage.create, ObstoreStorage.read, list[str]()

    def put(self: Any, name: str, data: bytes) -> Outcome:
        if "/root/" in name:
            ended.append(name)
        return create(self, name, data)

    def get(self: Any, name: str, known_tag: str | None = None) -> Any:
        if ended:
            raise StorageError("there is no answer")
        return read(self, name, known_tag)

    monkeypatch.setattr(ObstoreStorage, "create", put)
    monkeypatch.setattr(ObstoreStorage, "read", get)
    with pytest.raises(CommitInDoubtError, match=r"has 3 partitions now \(there is no answer\)"):
        reshard(root, "kept", 3)
    monkeypatch.undo()
    assert root.storage is not None

    assert StateRoot.open(root.storage.url).store("kept").partitions == 3


@pytest.mark.spec("RSH-24")
def test_in_a_directory(
    directory: StateRoot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So did a writer that published at that moment: "locked", and the reshard counted."""
    with ExitStack() as held:

        def publish() -> None:
            home = StateRoot.open(directory.path).home("kept")
            held.callback(DirectoryLock.acquire(staging_directory(home)).release)

        counts_and_warns(caplog, directory, NOTED, publish)
        assert (tmp_path / "from/kept/0").is_dir()
    reshard(directory, "kept", 3)

    assert not (tmp_path / "from/kept/0").exists()


@pytest.mark.spec("RSH-24")
def test_into_another_directory(
    directory: StateRoot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So did a scratch directory that could not be removed."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("busy")

    to = tmp_path / "to"
    counts_and_warns(
        caplog, directory, NOTED, lambda: monkeypatch.setattr(Path, "rmdir", refuse), to
    )
    monkeypatch.undo()

    assert StateRoot.open(to).store("kept").partitions == 3
    assert list((to / "kept" / ".reshard").iterdir()) == []
