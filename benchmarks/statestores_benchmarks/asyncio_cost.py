"""``python -m statestores_benchmarks.asyncio_cost``: reads and commits, with and without asyncio.

The figures of docs/asyncio.md. Two RocksDB stores with the same rows: one is called directly, the
other through `open_async`. Ways of doing the same take turns, ratios are within a round, and what
is printed are the medians of all rounds.
"""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeAlias

import statestores as ss
from statestores.asynchronous import AsyncStateStore, open_async

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
WORDS = ss.TopicPartition("words", 0)
ROUNDS = 7
READS = 2_000
READS_OF_A_RUN = 100
COMMITS = 200

Seconds: TypeAlias = tuple[float, float]
"""Of all threads on a processor, and on the clock."""

Counts: TypeAlias = ss.KeyValueStore[str, int]

Work: TypeAlias = Callable[[], Awaitable[object]]


async def _measure(work: Work) -> Seconds:
    processor, clock = process_time(), perf_counter()
    await work()
    return process_time() - processor, perf_counter() - clock


def _opened(path: Path) -> Counts:
    """Return a store with committed rows."""
    store = ss.open_store(path, COUNTS, backend="rocksdb")
    for number in range(READS_OF_A_RUN):
        store.put(f"word-{number}", number)
    store.commit({})
    return store


def _read(store: Counts) -> None:
    store.get("word-7")


def _read_hundred(store: Counts) -> None:
    for _ in range(READS_OF_A_RUN):
        store.get("word-7")


class Ways:
    """Ways of doing the same, over two stores."""

    def __init__(self, direct: Counts, awaited: AsyncStateStore[Counts]) -> None:
        """Use *direct* without asyncio, and *awaited* with it."""
        self._direct, self._awaited = direct, awaited
        self._offsets = count()

    async def get(self) -> None:
        """Read without asyncio."""
        for _ in range(READS):
            _read(self._direct)

    async def get_awaited(self) -> None:
        """Await each read."""
        for _ in range(READS):
            await self._awaited.run(_read)

    async def get_in_runs(self) -> None:
        """Await a hundred reads at once."""
        for _ in range(READS // READS_OF_A_RUN):
            await self._awaited.run(_read_hundred)

    async def commit(self) -> None:
        """Put and commit without asyncio."""
        for _ in range(COMMITS):
            offset = next(self._offsets)
            self._direct.put("word-1", offset)
            self._direct.commit({WORDS: offset})

    async def commit_awaited(self) -> None:
        """Await a put, and then its commit."""
        for _ in range(COMMITS):
            offset = next(self._offsets)
            await self._awaited.run(partial(_put, value=offset))
            await self._awaited.commit({WORDS: offset})


def _put(store: Counts, value: int) -> None:
    store.put("word-1", value)


async def _rounds(directory: Path) -> dict[str, list[Seconds]]:
    """Measure each way of reading and of committing, in turns."""
    with closing(_opened(directory / "direct")) as direct:
        async with await open_async(lambda: _opened(directory / "awaited")) as awaited:
            ways = Ways(direct, awaited)
            works: dict[str, Work] = {
                "get": ways.get,
                "get, awaited": ways.get_awaited,
                "get, a hundred in a run": ways.get_in_runs,
                "put and commit": ways.commit,
                "put and commit, awaited": ways.commit_awaited,
            }
            found: dict[str, list[Seconds]] = {name: [] for name in works}
            for _ in range(ROUNDS):
                for name, work in works.items():
                    found[name].append(await _measure(work))
            return found


def main() -> None:
    """Print what each way takes, and by how much more than without asyncio."""
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(_rounds(Path(directory)))
    print(f"medians of {ROUNDS} rounds, load {os.getloadavg()[0]:.0f}")
    for name, rounds in found.items():
        plain, times = ("get", READS) if name.startswith("get") else ("put and commit", COMMITS)
        processor, clock = (
            median(each[which] for each in rounds) / times * 1e6 for which in (0, 1)
        )
        more, longer = (
            median(
                one[which] / other[which] for one, other in zip(rounds, found[plain], strict=True)
            )
            for which in (0, 1)
        )
        print(
            f"{name:<24} {processor:7.1f} µs of processor ({more:6.2f} ×)"
            f" {clock:8.1f} µs ({longer:6.2f} ×)"
        )


if __name__ == "__main__":
    main()
