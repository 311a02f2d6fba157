"""A process that opens the stores it is told of, and says what it found, a line of JSON for each.

A line of its input is a kind and a path. Whoever waits for the answer can set a limit to it, and a
driver that aborts takes nobody along.
"""

import json
import sys
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.errors import StateStoreError
from statestores.logged_store import open_logged_store
from statestores.tasks import open_task

STORE = ss.KeyValue("damaged")
OTHER = ss.KeyValue("other")
SOURCE = ss.TopicPartition("input", 0)
KEYS = 40


def row(number: int) -> tuple[bytes, bytes | None]:
    """Return change *number*; a commit is made of those from ten times its offset on."""
    return b"k%03d" % (number * 7 % KEYS), None if number % 9 == 0 else b"%d" % number * 60


def content_at(offset: int | None) -> dict[bytes, bytes]:
    """Return what the store holds after the commit with *offset*."""
    content: dict[bytes, bytes] = {}
    for number in range(0 if offset is None else 10 * (offset + 1)):
        key, value = row(number)
        content.pop(key, None)
        if value is not None:
            content[key] = value
    return content


def _examine(store: Any, offset: int | None) -> str:
    """Return what is wrong with the answers of *store*, which says that it is at *offset*."""
    expected = content_at(offset)
    if dict(store.range()) != expected:
        return f"the rows are not those at {offset}"
    if dict(reversed(list(store.range(reverse=True)))) != expected:
        return f"the rows in reverse are not those at {offset}"
    keys = [b"k%03d" % number for number in range(KEYS)]
    if [store.get(key) for key in keys] != [expected.get(key) for key in keys]:
        return f"a single row is not that at {offset}"
    return ""


def _read(kind: str, path: Path) -> dict[str, object]:
    try:
        if kind == "logged":
            with open_logged_store(path, STORE.name, 0) as logged:
                input_offset = logged.store.position.get(SOURCE)
                wrong = _examine(logged.store, input_offset)
        elif kind == "task":
            with open_task(path, "0_0", [STORE.name, OTHER.name]) as task:
                input_offset = task.position.get(SOURCE)
                found = [_examine(task.store(each.name), input_offset) for each in (STORE, OTHER)]
                wrong = next(filter(None, found), "")
        else:
            with ss.open_existing(path) as store:
                input_offset = store.committed_offsets().get(SOURCE)
                wrong = _examine(store, input_offset)
    except StateStoreError as error:
        return {"error": type(error).__name__, "text": f"{error} {error.__cause__}"}
    return {"offset": input_offset, "wrong": wrong}


if __name__ == "__main__":
    for line in sys.stdin:
        kind, _, path = line.rstrip("\n").partition(" ")
        sys.stdout.write(json.dumps(_read(kind, Path(path))) + "\n")
        sys.stdout.flush()
