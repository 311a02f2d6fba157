"""What a task emits is part of its commits: recorded, published, remembered, never left out."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from directory_records import directory_of

import statestores as ss
from statestores import failpoints
from statestores.errors import CommitConflictError, StorageError, StoreCorruptedError
from statestores.files.directory_lock import LOCK_FILE
from statestores.tasks import Task, open_task

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


class Mail:
    """Outputs that emit letters into a box, which outlives the task."""

    def __init__(self, box: dict[str, bytes]) -> None:
        """Emit to *box*."""
        self.box = box
        self.pending: dict[str, bytes] = {}
        self.remembered: dict[str, int] | None = None
        self._has_emitted = False
        self.look: Callable[[], object] = lambda: None
        """What is called before anything is emitted."""

    @property
    def has_pending(self) -> bool:
        """Whether a letter is waiting."""
        return bool(self.pending)

    def record(self) -> Mapping[str, bytes]:
        """Return the letters that wait."""
        return dict(self.pending)

    def publish(self, files: Mapping[str, bytes]) -> None:
        """Put them into the box."""
        self.look()
        self.box |= files
        self._has_emitted = True

    @property
    def reached(self) -> Mapping[str, int]:
        """How many are in the box, if any was put there since the opening."""
        return {"box": len(self.box)} if self._has_emitted else {}

    def check(self, reached: Mapping[str, int]) -> None:
        """Note what the task remembers."""
        self.remembered = dict(reached)

    def forget(self) -> None:
        """Have no letter waiting."""
        self.pending.clear()


class Died(BaseException):
    """The process ends here, as far as a task can tell."""


def _die() -> None:
    raise Died


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.fixture
def box() -> dict[str, bytes]:
    """Where letters go."""
    return {}


def _opened(root: ss.StateRoot, mail: Mail) -> Task:
    return open_task(root, "0_0", NAMES, backend="sqlite", outputs=mail)


def _put(task: Task, number: int) -> None:
    task.store("counts").put("number", number)
    task.store("rates").put("number", number, timestamp_ms=number)


def _killed(root: ss.StateRoot, mail: Mail, at: str) -> None:
    """Commit both stores and a letter, and die at the failpoint *at*."""
    with _opened(root, mail) as task:
        _put(task, 1)
        mail.pending["first"] = b"hello"
        failpoints.arm(at, _die)
        with pytest.raises(Died):
            task.commit({INPUT: 1})
        failpoints.disarm()


@pytest.mark.spec("TSK-14", "TSK-16")
def test_what_is_emitted_is_emitted_by_its_commit_and_remembered(
    root: ss.StateRoot, box: dict[str, bytes]
) -> None:
    """Before a store has the commit, once, and with no store written as well."""
    mail = Mail(box)
    with _opened(root, mail) as task:
        ends: list[int] = []
        mail.look = lambda: ends.extend(lag.end_offset for lag in task.lags().values())
        task.store("counts").put("number", 1)
        mail.pending["first"] = b"hello"
        task.commit({INPUT: 1})
        assert (box, mail.pending, ends) == ({"first": b"hello"}, {}, [0, 0])
        mail.pending["second"] = b"again"
        task.commit({INPUT: 2})
        assert box == {"first": b"hello", "second": b"again"}
    with _opened(root, again := Mail(box)) as task:
        assert again.remembered == {"box": 2}
        assert task.next_offset(INPUT) == 3
        task.store("counts").put("number", 2)
        task.commit({INPUT: 3})  # nothing waits: it is the store's own commit
    with _opened(root, still := Mail(box)):
        assert still.remembered == {"box": 2}
    (root.path / "@tasks" / "0_0.ends").unlink()
    with _opened(root, last := Mail(box)) as task:
        assert task.store("counts").get("number") == 2

    assert last.remembered == {"box": 1}  # that there is something, and no longer how much


@pytest.mark.spec("TSK-14", "TSK-3")
def test_a_rollback_takes_back_what_waits_to_be_emitted(
    root: ss.StateRoot, box: dict[str, bytes]
) -> None:
    """A letter of a change that was rolled back was sent with the next commit."""
    with _opened(root, mail := Mail(box)) as task:
        _put(task, 1)
        mail.pending["first"] = b"hello"
        task.rollback()
        _put(task, 2)
        task.commit({INPUT: 2})

    assert box == {}


@pytest.mark.spec("TSK-14", "TSK-10")
@pytest.mark.parametrize("at", ["task.recorded", "task.outputs-appended"])
def test_what_a_recorded_commit_emits_is_not_left_out(
    root: ss.StateRoot, box: dict[str, bytes], at: str
) -> None:
    """The task was opened without the place that letters go to: they would never be sent."""
    _killed(root, Mail(box), at)
    assert bool(box) is (at == "task.outputs-appended")
    with pytest.raises(CommitConflictError, match=r"emits records, .* with outputs=\.\.\."):
        open_task(root, "0_0", NAMES)
    failpoints.arm("task.outputs-appended", _die)
    with pytest.raises(Died):
        _opened(root, Mail(box))
    failpoints.disarm()
    with _opened(root, Mail(box)) as task:
        assert task.next_offset(INPUT) == 2
        assert task.store("counts").get("number") == 1

    assert box == {"first": b"hello"}


@pytest.mark.spec("TSK-14", "TSK-10")
def test_a_recorded_commit_that_emits_nothing_is_finished_without(
    root: ss.StateRoot, box: dict[str, bytes]
) -> None:
    """The task has outputs, and this commit had nothing for them."""
    with _opened(root, Mail(box)) as task:
        _put(task, 1)
        failpoints.arm("task.recorded", _die)
        with pytest.raises(Died):
            task.commit({INPUT: 1})
        failpoints.disarm()
    with _opened(root, mail := Mail(box)) as task:
        assert task.store("counts").get("number") == 1

    assert (box, mail.remembered) == ({}, {})


def _more(mail: Path) -> None:
    (mail / "second").write_bytes(b"hello")


def _other(mail: Path) -> None:
    (mail / "first").write_bytes(b"hullo")


def _longer(mail: Path) -> None:
    (mail / "first").write_bytes(b"hello, hello")


def _less(mail: Path) -> None:
    (mail / "first").unlink()


def _none(mail: Path) -> None:
    _less(mail)
    mail.rmdir()


def _file(mail: Path) -> None:
    _none(mail)
    mail.write_bytes(b"")


@pytest.mark.spec("TSK-10", "TSK-14")
@pytest.mark.parametrize("damage", [_more, _other, _longer, _less, _none, _file])
def test_what_an_earlier_release_has_recorded_is_emitted_as_it_was(
    root: ss.StateRoot, box: dict[str, bytes], damage: Callable[[Path], None]
) -> None:
    """A directory of the third format: whole, it is finished; damaged, nothing of it is emitted."""
    _killed(root, Mail(box), "task.recorded")
    record = root.path / "@tasks" / "0_0" / "commit"
    whole = record.with_name("whole")
    directory_of(record, root, whole)
    assert json.loads((whole / "commit.json").read_text())["format"] == 3
    (whole / "@outputs" / LOCK_FILE).touch()  # of who wrote it: no part of it
    damaged, aside = record.with_name("damaged"), record.with_name("aside")
    directory_of(record, root, damaged)
    damage(damaged / "@outputs")
    record.unlink()
    damaged.rename(record)
    with pytest.raises(StoreCorruptedError, match="'@outputs' does not hold"):
        _opened(root, Mail(box))
    assert box == {}
    record.rename(aside)
    whole.rename(record)
    with _opened(root, Mail(box)) as task:
        assert task.store("counts").get("number") == 1

    assert box == {"first": b"hello"}


@pytest.mark.spec("TSK-10", "TSK-14")
@pytest.mark.parametrize(
    ("call", "place"), [("rglob", "@outputs"), ("read_bytes", "@outputs/first")]
)
def test_what_an_earlier_release_has_recorded_and_cannot_be_read_stays(
    root: ss.StateRoot,
    box: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    place: str,
) -> None:
    """The disk fails for a moment: that is no damage."""
    _killed(root, Mail(box), "task.recorded")
    record = root.path / "@tasks" / "0_0" / "commit"
    whole = record.with_name("whole")
    directory_of(record, root, whole)
    record.unlink()
    whole.rename(record)
    done = getattr(Path, call)

    def failing(path: Path, *given: Any) -> Any:
        if path == record / place:
            raise OSError(5, "Input/output error", str(path))
        return done(path, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Path, call, failing)
        with pytest.raises(StorageError, match=r"cannot read '.*@outputs': Input/output error"):
            _opened(root, Mail(box))
    assert box == {}
    _opened(root, Mail(box)).close()

    assert box == {"first": b"hello"}
