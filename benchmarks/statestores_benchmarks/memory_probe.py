"""``python -m statestores_benchmarks.memory_probe``: fill and read stores, and print what it took.

It is a process of its own, because what an allocator keeps from one round would hide the next. It
measures the peak of the process's anonymous memory, above that before the first store.
"""

import random
import sys
from contextlib import ExitStack
from pathlib import Path

import statestores as ss
from statestores_benchmarks.data import COMMIT_ROWS, SEED

VALUE_BYTES = 500

_KIB = 1024


def memory_of(process: int | str, field: str) -> int:
    """Return the *field* of what the kernel says of the memory of a *process*, in bytes.

    Raises:
        FileNotFoundError, ProcessLookupError: There is no such process, or it has ended.
    """
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * _KIB
    raise ProcessLookupError(f"the process {process} has no {field}")


def anonymous_bytes() -> int:
    """Return the memory of this process that is not backed by a file."""
    return memory_of("self", "RssAnon")


def grown_by(directory: Path, backend: str, budget_bytes: int, stores: int, rows: int) -> int:
    """Return by how many bytes the process grew over *stores* stores of *rows* rows each.

    A budget of 0 means none: each store then has its own caches and buffers.
    """
    with ss.open_store(directory / "warm", ss.KeyValue("warm"), backend=backend) as warm:
        warm.put(b"k", b"v")
        warm.commit({})
    before = highest = anonymous_bytes()
    options = (
        {"memory_budget": ss.MemoryBudget(budget_bytes, stores=stores)} if budget_bytes else {}
    )
    chance = random.Random(SEED)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(
                ss.open_store(
                    directory / str(number),
                    ss.KeyValue("bench"),
                    backend=backend,
                    options=options,
                    durability=ss.Durability.PROCESS_CRASH,
                )
            )
            for number in range(stores)
        ]
        for start in range(0, rows, COMMIT_ROWS):
            for store in opened:
                for number in range(start, min(rows, start + COMMIT_ROWS)):
                    key = b"key-%012d" % number
                    store.get(key)  # so that its row is kept
                    store.put(key, chance.randbytes(VALUE_BYTES))
                store.commit({})
            highest = max(highest, anonymous_bytes())
        for store in opened:
            for _ in range(rows):
                store.get(b"key-%012d" % chance.randrange(rows))
            highest = max(highest, anonymous_bytes())
    return highest - before


if __name__ == "__main__":
    _, _directory, _backend, *_numbers = sys.argv
    print(grown_by(Path(_directory), _backend, *map(int, _numbers)))
