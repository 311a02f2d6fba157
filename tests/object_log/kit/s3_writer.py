"""Counts numbers into a store whose changelog is in an object store, until it is killed or fenced.

    python s3_writer.py '{"url": ..., "options": ..., "directory": ..., "rows": ..., "keys": ...}'

Prints where it begins, and the number of each commit that has returned. With a number as `waits_at`
it says so before that commit, and goes on when it is given a line.
"""

import json
import sys
from typing import Any

import statestores as ss
from statestores.errors import FencedError

INPUT = ss.TopicPartition("numbers", 0)


def expected(position: int, keys: int) -> dict[bytes, bytes]:
    """Return what the store has when it has counted all numbers up to *position*."""
    return {
        b"%d" % key: b"%d" % len(range(key, position + 1, keys))
        for key in range(min(keys, position + 1))
    }


def say(text: object) -> None:
    """Tell whoever started this."""
    print(text, flush=True)  # noqa: T201  # it reads every line


def count(case: dict[str, Any]) -> None:
    """Count on from where the store is."""
    opened: Any = ss.open_logged_store(
        case["url"],
        "counts",
        0,
        directory=case["directory"],
        backend="sqlite",
        storage_options=case["options"],
    )
    with opened as counts:
        first = counts.position.get(INPUT, -1) + 1
        say(first)
        for number in range(first, case["rows"]):
            key = b"%d" % (number % case["keys"])
            if number == case.get("waits_at"):
                say("waits")
                sys.stdin.readline()
            counts.store.put(key, b"%d" % (int(counts.store.get(key) or b"0") + 1))
            counts.commit({INPUT: number})
            say(number)


if __name__ == "__main__":
    try:
        count(json.loads(sys.argv[1]))
    except FencedError:
        say("fenced")
