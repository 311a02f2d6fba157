"""Stores on a thread of their own, for asyncio."""

import asyncio
import threading
from pathlib import Path

import pytest

import statestores as ss
from statestores.asynchronous import open_async
from statestores.errors import InvalidTypeError, StoreClosedError

COUNTS: ss.KeyValue[str, int] = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
INPUT = ss.TopicPartition("words", 0)


def add(store: ss.KeyValueStore[str, int], key: str) -> int:
    """Add one to a count, and return it."""
    count = (store.get(key) or 0) + 1
    store.put(key, count)
    return count


@pytest.mark.spec("ROF-14")
def test_no_update_is_lost_between_tasks(tmp_path: Path) -> None:
    """A read and the write that depends on it are one call, whatever other tasks do."""

    async def main() -> list[tuple[str, int]]:
        async with await open_async(
            lambda: ss.open_store(tmp_path / "store", COUNTS, backend="sqlite")
        ) as counts:
            await asyncio.gather(
                *(counts.run(lambda store: add(store, "tea")) for _ in range(50)),
                *(counts.commit({INPUT: offset}) for offset in range(5)),
            )
            await counts.run(lambda store: store.put_all([(f"k{n:03}", n) for n in range(600)]))
            return [row async for row in counts.iterate(lambda store: store.range(None, None))]

    rows = asyncio.run(main())

    assert rows == [*((f"k{n:03}", n) for n in range(600)), ("tea", 50)]
    with ss.open_store(tmp_path / "store", COUNTS) as store:
        assert store.get("tea") == 50
        assert store.get("k000") is None
        assert store.next_offset(INPUT) == 5


@pytest.mark.spec("ROF-15", "ROF-16")
def test_the_event_loop_goes_on_and_a_cancelled_call_is_made_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    """The call that runs is waited for by the next one; the one in the queue never runs."""
    running, go_on = threading.Event(), threading.Event()

    def slow(store: ss.KeyValueStore[str, int]) -> None:
        running.set()
        assert go_on.wait(60)
        store.put("slow", 1)

    async def main() -> tuple[int | None, int | None]:
        counts = await open_async(
            lambda: ss.open_store(tmp_path / "store", COUNTS, backend="memory")
        )
        first = asyncio.create_task(counts.run(slow))
        await asyncio.to_thread(running.wait, 60)
        second = asyncio.create_task(counts.run(lambda store: store.put("never", 1)))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        for each in (first, second):
            with pytest.raises(asyncio.CancelledError):
                await each
        go_on.set()
        found = await counts.run(lambda store: (store.get("slow"), store.get("never")))
        last = asyncio.create_task(counts.run(lambda store: store.get("slow")))
        await asyncio.sleep(0)
        await counts.close()
        await counts.close()
        assert await last == 1
        with pytest.raises(StoreClosedError, match="open it again"):
            await counts.commit()
        return found

    assert asyncio.run(main()) == (1, None)


@pytest.mark.spec("ROF-15")
def test_errors_of_opening_and_of_calls_come_out(tmp_path: Path) -> None:
    """And an opening that failed leaves no thread."""

    async def main() -> None:
        with pytest.raises(ss.errors.StoreNotFoundError):
            await open_async(lambda: ss.open_logged_store(tmp_path / "nothing", "counts"))
        with pytest.raises(InvalidTypeError, match=r"lambda: open_store"):
            await open_async(lambda: 3)  # type: ignore[type-var]  # the mistake
        async with await open_async(
            lambda: ss.open_store(tmp_path / "store", COUNTS, backend="memory")
        ) as counts:
            with pytest.raises(ss.errors.SerializationError):
                await counts.run(lambda store: store.put("tea", "3"))  # type: ignore[arg-type]

    asyncio.run(main())

    for each in threading.enumerate():
        if "statestores-owner" in each.name:
            each.join(60)
            assert not each.is_alive()
