"""The work that every contender does: puts, gets, and a counter."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from statestores_benchmarks.cases import Case, Outcome, Prepare, Timed
from statestores_benchmarks.contenders.door import Contender, Door
from statestores_benchmarks.data import COMMIT_ROWS, VALUE

COUNTER_COMMIT_ROWS = 10_000

_ANSWER_KEYS = 200
"""For how many keys the contenders' answers are compared."""

_COUNTER_BYTES = 8


class Rows(Enum):
    """Where the rows to read are."""

    ON_DISK = "in the files of a store that was opened again"
    PENDING = "put, and not committed"
    JUST_COMMITTED = "read, put and committed by the same open store"


def cases(
    contenders: Sequence[Contender[bytes, Any]], work: Callable[[Contender[bytes, Any]], Prepare]
) -> list[Case]:
    """Return a case for each of *contenders*."""
    return [
        Case(
            case_name(contender),
            work(contender),
            contender=contender.name,
            needs=contender.needs,
        )
        for contender in contenders
    ]


def case_name(contender: Contender[bytes, Any]) -> str:
    """Return the name of the case that `cases` makes for *contender*."""
    return f"{contender.name}: {contender.what}"


def puts(
    keys: list[bytes], contender: Contender[bytes, bytes], *, commit_rows: int = COMMIT_ROWS
) -> Prepare:
    """Put all *keys*, with a commit every *commit_rows*."""
    return partial(_putting, keys, contender, commit_rows)


@contextmanager
def _putting(
    keys: list[bytes], contender: Contender[bytes, bytes], commit_rows: int, path: Path
) -> Iterator[Timed]:
    with contender.open(path) as door:

        def timed() -> Outcome:
            put, commit = door.put, door.commit
            for start in range(0, len(keys), commit_rows):
                for key in keys[start : start + commit_rows]:
                    put(key, VALUE)
                commit()
            return Outcome(answer=partial(_values, door, keys))

        yield timed


def gets(
    keys: list[bytes],
    wanted: list[bytes],
    contender: Contender[bytes, bytes],
    rows: Rows = Rows.ON_DISK,
) -> Prepare:
    """Get *wanted* of *keys*, from where the *rows* are."""
    return partial(_getting, keys, wanted, contender, rows)


@contextmanager
def _getting(
    keys: list[bytes],
    wanted: list[bytes],
    contender: Contender[bytes, bytes],
    rows: Rows,
    path: Path,
) -> Iterator[Timed]:
    with contender.open(path) as door:
        _fill(door, keys)
        door.commit()
    with contender.open(path) as door:  # opened again, it reads files and not memory
        if rows is Rows.JUST_COMMITTED:
            for key in keys:
                door.get(key)
        if rows is not Rows.ON_DISK:
            _fill(door, keys)
        if rows is Rows.JUST_COMMITTED:
            door.commit()

        def timed() -> Outcome:
            get = door.get
            for key in wanted:
                get(key)
            return Outcome(answer=partial(_values, door, keys))

        yield timed
        door.commit()


def _fill(door: Door[bytes, bytes], keys: list[bytes]) -> None:
    for key in keys:
        door.put(key, VALUE)


def counts(keys: list[bytes], contender: Contender[bytes, bytes]) -> Prepare:
    """Count *keys* in eight bytes, with a commit every 10,000."""
    return partial(_counting, keys, contender)


@contextmanager
def _counting(keys: list[bytes], contender: Contender[bytes, bytes], path: Path) -> Iterator[Timed]:
    with contender.open(path) as door:

        def timed() -> Outcome:
            get, put = door.get, door.put
            for start in range(0, len(keys), COUNTER_COMMIT_ROWS):
                for key in keys[start : start + COUNTER_COMMIT_ROWS]:
                    counted = get(key)
                    count = int.from_bytes(counted, "big") if counted else 0
                    put(key, (count + 1).to_bytes(_COUNTER_BYTES, "big"))
                door.commit()
            return Outcome(answer=partial(_values, door, keys))

        yield timed


def json_counts(keys: list[bytes], contender: Contender[bytes, Any]) -> Prepare:
    """Count *keys* in JSON objects, with a commit every 10,000."""
    return partial(_counting_objects, keys, contender)


@contextmanager
def _counting_objects(
    keys: list[bytes], contender: Contender[bytes, Any], path: Path
) -> Iterator[Timed]:
    with contender.open(path) as door:

        def timed() -> Outcome:
            get, put = door.get, door.put
            for start in range(0, len(keys), COUNTER_COMMIT_ROWS):
                for key in keys[start : start + COUNTER_COMMIT_ROWS]:
                    found = get(key)
                    count = found["count"] if found else 0
                    put(key, {"count": count + 1, "currency": "EUR"})
                door.commit()
            return Outcome(answer=partial(_values, door, keys))

        yield timed


def _values(door: Door[bytes, Any], keys: list[bytes]) -> list[object]:
    """Return what *door* now has for some of *keys*."""
    return [door.get(key) for key in sorted(set(keys))[:_ANSWER_KEYS]]
