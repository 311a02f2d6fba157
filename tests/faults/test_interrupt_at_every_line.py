"""Ctrl-C at every line of what changes a store: it holds one commit, and says which.

The story: a service was stopped by Ctrl-C in the middle of a commit. The engine had the batch, the
store did not know it yet, so `rollback()` was accepted; the store then showed the content of the
second commit beside the offset of the first, and the service counted the records between them
twice. 193 of 781 lines of a commit did this, those of a logged store as well.

What holds now: content, committed offset and position are of one commit, at once and after
reopening; when `rollback()` is accepted, the commit is not there. That is checked line by line.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from every_line import chosen_lines, count_lines, interrupt, interrupt_twice

import statestores as ss
from statestores import arrow as ssa
from statestores.changelog import ChangelogReader
from statestores.errors import CommitConflictError, CommitInDoubtError
from statestores.tasks import open_task

pytestmark = [
    pytest.mark.usefixtures("little_garbage"),
    # An opening that was interrupted before anybody had the store leaves it to the collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

INPUT = ss.TopicPartition("input", 0)
LINES = 14
"""Lines that are tried of each case in the bounded run; all of them in the soak run."""

SECOND_EVERY = 40
"""Of the lines that handle an interrupt, the first and every so manyth are tried in the bounded
run; all of them in the soak run."""

HANDLED = {
    "commit": (
        "changelog.append.before",
        "logged.appended",
        "task.recording",
        "commit.apply.before",
        "commit.apply.after",
    ),
    "truncate, go on": ("logged.appended",),
}
"""Where an operation is interrupted, so that a second interrupt comes while that is handled."""

LINES_OF_NOTES = 50
"""So many lines at the end of a task's commit, and some more, note it when it is made."""

CRASH = ss.Durability.PROCESS_CRASH


class Kind(NamedTuple):
    """A kind of store, and how the number of a commit is written into it and read."""

    specification: Any
    write: Callable[[Any, int], object]
    read: Callable[[Any], int]


KINDS = {
    "key-value": Kind(
        ss.KeyValue("s"), lambda s, n: s.put(b"a", b"%d" % n), lambda s: int(s.get(b"a") or 0)
    ),
    "ttl": Kind(
        ss.TimestampedKeyValue("s", ttl_ms=99),
        lambda s, n: s.put(b"a", b"%d" % n, n),
        lambda s: int(s.get(b"a").value) if s.get(b"a") else 0,
    ),
    "versioned": Kind(
        ss.Versioned("s", history_retention_ms=9),
        lambda s, n: s.put(b"a", b"%d" % n, n),
        lambda s: int(s.get(b"a").value) if s.get(b"a") else 0,
    ),
    "window": Kind(
        ss.Window("s", retention_ms=99, window_size_ms=1),
        lambda s, n: s.put(b"a", b"%d" % n, 5),
        lambda s: int(s.fetch(b"a", 5) or 0),
    ),
    "session": Kind(
        ss.Session("s", retention_ms=99),
        lambda s, n: s.put(b"a", 5, 5, b"%d" % n),
        lambda s: int(s.fetch_session(b"a", 5, 5) or 0),
    ),
}


class Subject:
    """A store alone, a logged one, a task of one or of two, behind the same few calls."""

    def __init__(self, shape: str, kind: Kind, directory: Path) -> None:
        self._shape, self._kind, self._directory = shape, kind, directory
        if shape != "alone" and not (directory / "root").exists():
            root = ss.StateRoot.create(directory / "root")
            root.add_store(kind.specification, partitions=1)
            root.add_store(ss.KeyValue("other"), partitions=1)
        self.handle: Any = None
        self.number = -1
        """The last commit that nothing interrupted."""

    def begin(self) -> None:
        """Make a commit: a higher one than all so far, with one between that may have been made."""
        self.number += 2
        self.write(self.number)
        self.commit(self.number)

    def open(self) -> None:
        """Open it."""
        root, name = self._directory / "root", self._kind.specification.name
        if self._shape == "alone":
            self.handle = ss.open_store(
                self._directory / "s", self._kind.specification, backend="sqlite", durability=CRASH
            )
        elif self._shape == "logged":
            self.handle = ss.open_logged_store(root, name, 0, backend="sqlite", durability=CRASH)
        else:
            names = [name] if self._shape == "task of one" else [name, "other"]
            self.handle = open_task(root, "0_0", names, backend="sqlite", durability=CRASH)

    @property
    def store(self) -> Any:
        """The store itself, the first of a task."""
        if self._shape == "alone":
            return self.handle
        return self.handle.store if self._shape == "logged" else self._of_task("s")

    def _of_task(self, name: str) -> Any:
        return self.handle.stores[name].store

    def write(self, number: int) -> None:
        """Write *number* everywhere, pending."""
        self._kind.write(self.store, number)
        if self._shape == "task":
            self._of_task("other").put(b"a", b"%d" % number)

    def commit(self, number: int) -> None:
        """Commit it with the offset *number* of the input."""
        if self._shape == "alone":
            self.handle.advance_position({INPUT: number})
            self.handle.commit({INPUT: number})
        else:
            self.handle.commit({INPUT: number})

    def rollback(self) -> None:
        """Roll back."""
        (self.handle if self._shape.startswith("task") else self.store).rollback()

    def state(self) -> tuple[int, ...]:
        """Return the number of the commit, as everything says it that has one."""
        said = [self._kind.read(self.store), self.handle.position.get(INPUT, 0)]
        said.append(max(self.handle.next_offset(INPUT) - 1, 0))
        if self._shape == "alone":
            said.append(self.handle.committed_offset(INPUT) or 0)
        if self._shape == "task":
            said.append(int(self._of_task("other").get(b"a") or 0))
        return tuple(said)

    def close(self) -> None:
        """Close it."""
        self.handle.close()

    def reopen(self) -> tuple[int, ...]:
        """Close, open, and return the state."""
        self.close()
        self.open()
        return self.state()


CASES = [("alone", name) for name in KINDS]
CASES += [("logged", "key-value"), ("logged", "ttl"), ("logged", "versioned")]
CASES += [("task", "key-value"), ("task of one", "key-value")]


def _is_one_commit(said: tuple[int, ...]) -> bool:
    return len(set(said)) == 1


@pytest.fixture
def subjects(tmp_path: Path) -> Iterator[Callable[[str, str], Subject]]:
    """Make subjects in directories of their own, with the first commit in them, and close them."""
    numbers, made = count(), []

    def make(shape: str, kind: str) -> Subject:
        subject = Subject(shape, KINDS[kind], tmp_path / str(next(numbers)))
        made.append(subject)
        subject.open()
        subject.begin()
        return subject

    yield make
    for subject in made:
        subject.close()


Make = Callable[[str, str], Subject]


def _after_a_commit(subject: Subject) -> str | None:
    """Do as a careful caller does after an interrupted commit; return what is wrong."""
    rolled_back = True
    try:
        subject.rollback()
    except CommitConflictError:
        rolled_back = False
        try:
            subject.commit(subject.number + 1)
        except (CommitConflictError, CommitInDoubtError):
            subject.reopen()
    except CommitInDoubtError:
        rolled_back = False
        subject.reopen()
    said, later = subject.state(), subject.reopen()
    if not _is_one_commit(said) or later != said:
        return f"rolled back: {rolled_back}, {said}, reopened {later}"
    if rolled_back and said[0] != subject.number:
        return f"rolled back, and it is there: {said}"
    return None


def _after_a_rollback(subject: Subject) -> str | None:
    """Commit, and when that is refused roll back again."""
    try:
        subject.commit(subject.number + 1)
    except CommitConflictError:
        subject.rollback()
    said, later = subject.state(), subject.reopen()
    return None if _is_one_commit(said) and later == said else f"{said}, reopened {later}"


def _after_a_close(subject: Subject) -> str | None:
    """Close again, and open."""
    later = subject.reopen()
    return None if set(later) == {subject.number} else f"reopened {later}"


def _after_an_opening(subject: Subject) -> str | None:
    """Open again: nobody holds a lock any more."""
    gc.collect()
    subject.open()
    said = subject.state()
    return None if set(said) == {subject.number} else f"opened {said}"


def _after_a_truncation(subject: Subject) -> str | None:
    """Open again: everything is there or nothing is."""
    later = subject.reopen()
    return None if set(later) in ({0}, {subject.number}) else f"reopened {later}"


def _after_a_truncation_go_on(subject: Subject) -> str | None:
    """Roll back and commit something: it stays, also when the truncation is completed first."""
    subject.rollback()
    subject.write(subject.number + 1)
    subject.commit(subject.number + 1)
    said, later = subject.state(), subject.reopen()
    return None if {*said, *later} == {subject.number + 1} else f"{said}, reopened {later}"


def _after_a_clearing(subject: Subject) -> str | None:
    """Look at the offset, and open again: it is there or it is not; the rest is as it was."""
    said = subject.handle.committed_offset(INPUT)
    later = subject.reopen()
    rest = {*later[:2], *later[4:]}
    is_known = said in (None, subject.number) and subject.handle.committed_offset(INPUT) == said
    if not is_known or rest != {subject.number}:
        return f"{said}, reopened {later}"
    return None


OPERATIONS: dict[str, tuple[Callable[[Subject], object], Callable[[Subject], str | None]]] = {
    "commit": (lambda subject: subject.commit(subject.number + 1), _after_a_commit),
    "rollback": (lambda subject: subject.rollback(), _after_a_rollback),
    "close": (lambda subject: subject.close(), _after_a_close),
    "open": (lambda subject: subject.open(), _after_an_opening),
    "truncate": (lambda subject: subject.store.truncate(), _after_a_truncation),
    "truncate, go on": (lambda subject: subject.store.truncate(), _after_a_truncation_go_on),
    "clear offsets": (lambda subject: subject.store.clear_offsets(), _after_a_clearing),
}

OF_SHAPE = {
    "alone": tuple(OPERATIONS),
    "logged": tuple(name for name in OPERATIONS if name != "clear offsets"),
    "task": ("commit", "rollback", "close", "open"),
    "task of one": ("commit",),
}
"""What an owner may do with a store: the offsets of a logged one and of a task are not his."""


def _prepare(subject: Subject, operation: str) -> None:
    if operation == "open":
        subject.close()
    elif operation in {"commit", "rollback"}:
        subject.write(subject.number + 1)


def _violations(make: Make, shape: str, kind: str, operation: str, most: int | None) -> list[str]:
    """Interrupt *operation* at its lines, at *most* so many; return what is wrong where."""
    lines = _lines(make, shape, kind, operation)
    chosen = chosen_lines(lines, most, seed=len(shape) + len(kind) + len(operation))
    return _violations_at(chosen, make, shape, kind, operation)


def _lines(make: Make, shape: str, kind: str, operation: str) -> int:
    """Return how many lines *operation* takes."""
    subject = make(shape, kind)
    _prepare(subject, operation)
    return count_lines(lambda: OPERATIONS[operation][0](subject))


def _violations_at(
    lines: Iterable[int], make: Make, shape: str, kind: str, operation: str
) -> list[str]:
    """Interrupt *operation* at *lines*; return what is wrong where."""
    tried = _Tried(make, shape, kind, operation)
    for at in lines:
        tried.again(partial(interrupt, at=at))
    return tried.wrong


class _Tried:
    """A subject that goes on after one interrupt, and is interrupted again: what was wrong."""

    def __init__(self, make: Make, shape: str, kind: str, operation: str) -> None:
        self._make = partial(make, shape, kind)
        self._operation = operation
        self._subject = self._make()
        self.wrong: list[str] = []

    def again(self, interrupted: Callable[[Callable[[], object]], str | None]) -> bool:
        """Have the operation *interrupted*, look, and commit; return whether it was.

        What was wrong does not go on: the next one is a new subject.
        """
        subject, (act, go_on) = self._subject, OPERATIONS[self._operation]
        _prepare(subject, self._operation)
        where = interrupted(lambda: act(subject))
        found = go_on(subject) if where is not None else None
        if found is not None:
            self.wrong.append(f"{where}: {found}")
            self._subject = self._make()
            return True
        if where is None:
            subject.reopen()
        subject.begin()
        return where is not None


def _second_violations(
    make: Make, shape: str, kind: str, operation: str, every: int = 1
) -> list[str]:
    """Interrupt *operation*, and what handles that as well, at *every* so manyth of its lines."""
    wrong = []
    for failpoint in HANDLED.get(operation, ()):
        tried = _Tried(make, shape, kind, operation)
        for at in count(1, every):
            if not tried.again(partial(interrupt_twice, failpoint=failpoint, at=at)):
                break
        wrong += [f"{failpoint}, {each}" for each in tried.wrong]
    return wrong


@pytest.mark.spec("COM-2", "COM-9", "COM-43", "LGS-10", "TSK-3")
@pytest.mark.parametrize(("shape", "kind"), CASES)
def test_an_interrupted_commit_is_there_or_can_be_rolled_back(
    subjects: Make, shape: str, kind: str
) -> None:
    """Some of its lines, chosen by a seed, and some of the lines that handle an interrupt.

    A supervisor sent two signals, whose handlers both raise, while the disk was waited for. The
    second one came out of what handled the first, before the store had noted that a commit was in
    doubt: `rollback()` was accepted, and the commit was there.
    """
    assert _violations(subjects, shape, kind, "commit", LINES) == []
    assert _second_violations(subjects, shape, kind, "commit", SECOND_EVERY) == []


@pytest.mark.spec("COM-43", "TSK-3")
@pytest.mark.parametrize("shape", ["task", "task of one"])
def test_an_interrupt_after_the_commit_does_not_call_it_rolled_back(
    subjects: Make, shape: str
) -> None:
    """A task that had committed noted it in two files. An interrupt there came out of `commit`.

    The task no longer knew that it was in a commit: `rollback()` then said nothing of one that was
    there, and the service read the input of it again.
    """
    lines = _lines(subjects, shape, "key-value", "commit")
    notes = range(lines - LINES_OF_NOTES, lines + 1, 4)
    assert _violations_at(notes, subjects, shape, "key-value", "commit") == []


@pytest.mark.spec("COM-2", "COM-5", "COM-7", "COM-8", "COM-18", "COM-42")
@pytest.mark.parametrize("shape", [shape for shape, each in OF_SHAPE.items() if len(each) > 1])
def test_other_operations_can_be_interrupted(subjects: Make, shape: str) -> None:
    """A rollback is repeated, a close as well; an opening leaves no lock behind."""
    for operation in OF_SHAPE[shape][1:]:
        assert _violations(subjects, shape, "key-value", operation, LINES) == [], operation
        found = _second_violations(subjects, shape, "key-value", operation, SECOND_EVERY)
        assert found == [], operation


@pytest.mark.soak
@pytest.mark.spec(
    "COM-2", "COM-5", "COM-7", "COM-9", "COM-18", "COM-42", "COM-43", "LGS-10", "TSK-3"
)
@pytest.mark.parametrize(
    ("shape", "kind", "operation"),
    [(shape, kind, each) for shape, kind in CASES for each in OF_SHAPE[shape]],
)
def test_every_line_can_be_interrupted(
    subjects: Make, shape: str, kind: str, operation: str
) -> None:
    """The same, at each of the lines."""
    assert _violations(subjects, shape, kind, operation, None) == []
    assert _second_violations(subjects, shape, kind, operation) == []


@pytest.mark.soak
@pytest.mark.spec("SNP-10", "COM-43")
def test_a_restore_can_be_interrupted_at_every_line(tmp_path: Path) -> None:
    """Called again, it ends with everything."""
    assert _interrupted_restores(tmp_path, None) == []


@pytest.mark.spec("SNP-10", "COM-43")
def test_an_interrupted_restore_can_be_called_again(tmp_path: Path) -> None:
    """Some of its lines, chosen by a seed."""
    assert _interrupted_restores(tmp_path, LINES) == []


def _interrupted_restores(directory: Path, most: int | None) -> list[str]:
    specification = ss.KeyValue("s")
    root = ss.StateRoot.create(directory / "root")
    root.add_store(specification, partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="memory", durability=CRASH) as logged:
        for number in range(1, 4):
            logged.store.put(b"%d" % number, b"v")
            logged.commit({INPUT: number})

    def restored(name: str, at: int | None) -> tuple[str | None, int, dict[bytes, bytes], int]:
        path = directory / name
        store = ss.open_store(path, specification, backend="sqlite", durability=CRASH)
        where, lines = None, 0
        with store, ChangelogReader.open(root.partition("s", 0).changelog) as log:

            def run() -> None:
                ssa.restore(store, changelog=log, batch_rows=2)

            if at is None:
                lines = count_lines(run)
            else:
                where = interrupt(run, at)
            run()
            return where, lines, dict(store.range()), store.position.get(INPUT, 0)

    _, lines, content, position = restored("whole", None)
    wrong = []
    for at in chosen_lines(lines, most, seed=1):
        where, _, found, reached = restored(str(at), at)
        if (found, reached) != (content, position):
            wrong.append(f"{where}: {found} at {reached}")
    return wrong
