r"""Write the state directories of Quix Streams, Faust and Bytewax that tests/migration reads.

Each is made by the library itself, through the code that its applications run, and beside it lies
what the library reads from it, as JSON. Run it in an environment that has the three and none of
ours, since they want other versions of what we share:

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install \
        quixstreams==3.28.1 'faust-streaming[rocksdict]==0.15.3' bytewax==0.21.1
    /tmp/peers/bin/python tools/peer_states.py tests/migration/fixtures
"""

import asyncio
import json
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import ref

LIBRARIES = ("quixstreams", "faust-streaming", "bytewax", "rocksdict")

# RocksDB needs none of these to read, and they say on which machine it was written.
_LEFT_OUT = ("LOG", "LOCK", "OPTIONS")

_NOW_MS = 1_700_000_000_000


@contextmanager
def _committed(store: Any, changelog_offset: int) -> Iterator[Any]:
    """Give a transaction, and commit it as an application does when the changelog has it."""
    transaction = store.begin()
    yield transaction
    transaction.prepare(processed_offsets={"orders": changelog_offset})
    transaction.flush(changelog_offset=changelog_offset)


def write_quix(directory: Path) -> dict[str, Any]:
    """Write a group's state: plain stores, windows, sessions, values at times, and with TTLs."""
    from quixstreams.state.manager import StateStoreManager  # noqa: PLC0415  # see above

    manager = StateStoreManager(group_id="shop", state_dir=str(directory))
    manager.init()
    manager.register_store("orders", "default")
    manager.register_store("orders", "expiring")
    manager.register_windowed_store("orders", "tumbling")
    manager.register_windowed_store("orders", "sessions")
    manager.register_windowed_store("orders", "collected")
    manager.register_timestamped_store("orders", "asof", grace_ms=60_000, keep_duplicates=False)
    manager.register_timestamped_store("orders", "twice", grace_ms=60_000, keep_duplicates=True)
    expected: dict[str, Any] = {}
    for partition in (0, 1):
        stores = manager.on_partition_assign("orders", partition, {})
        with _committed(stores["default"], 90 + partition) as transaction:
            state = transaction.as_state(prefix=b"anna" if partition else b"bob|1")
            state.set("count", partition + 3)
            state.set("tags", ["a", "|b"])
            state.set("gone", 1)
        with _committed(stores["default"], 91 + partition) as transaction:
            transaction.as_state(prefix=b"anna" if partition else b"bob|1").delete("gone")
    stores = manager.on_partition_assign("orders", 0, {})
    with _committed(stores["expiring"], 5) as transaction:
        state = transaction.as_state(prefix=b"anna", timestamp=_NOW_MS)
        state.set("short", 1, ttl=timedelta(seconds=1))
        state.set("long", 2, ttl=timedelta(days=1))
        state.set("ever", 3)
    with _committed(stores["expiring"], 6) as transaction:
        state = transaction.as_state(prefix=b"bob", timestamp=_NOW_MS + 5_000)
        state.set("later", 4, ttl=timedelta(days=1))
    with stores["expiring"].begin() as transaction:
        state = transaction.as_state(prefix=b"anna", timestamp=_NOW_MS + 5_000)
        expected["expiring"] = {name: state.get(name) for name in ("short", "long", "ever")}
    _write_windows(stores)
    with _committed(stores["asof"], 10) as transaction:
        for time, value in ((1_000, 1.08), (2_000, 1.10), (61_500, 1.12)):
            transaction.set_for_timestamp(time, {"usd": value}, prefix=b"EUR")
    with stores["asof"].begin() as transaction:
        expected["asof"] = [
            transaction.get_latest(time, prefix=b"EUR") for time in (1_500, 2_500, 70_000)
        ]
    with _committed(stores["twice"], 11) as transaction:
        for value in (1, 2):
            transaction.set_for_timestamp(1_000, value, prefix=b"EUR")
    for partition in (0, 1):
        stores = manager.on_partition_assign("orders", partition, {})
        with stores["default"].begin() as transaction:
            state = transaction.as_state(prefix=b"anna" if partition else b"bob|1")
            expected[f"default/{partition}"] = {
                name: state.get(name) for name in ("count", "tags", "gone")
            }
    manager.close()
    return expected


def _write_windows(stores: dict[str, Any]) -> None:
    with _committed(stores["tumbling"], 7) as transaction:
        for key, start, value in ((b"anna", 0, 2), (b"anna", 10_000, 5), (b"b|ob", 10_000, 1)):
            transaction.update_window(start, start + 10_000, value, start + 1, prefix=key)
    with _committed(stores["sessions"], 8) as transaction:
        transaction.update_window(1_000, 3_500, 2, 3_000, prefix=b"anna")
        transaction.update_window(9_000, 9_500, 1, 9_000, prefix=b"anna")
    with _committed(stores["collected"], 9) as transaction:
        transaction.update_window(0, 10_000, None, 1, prefix=b"anna")
        transaction.add_to_collection(value="x", id=1, prefix=b"anna")


def write_faust(directory: Path) -> dict[str, Any]:
    """Write the tables of an application: a plain one, and windows that tumble and hop."""
    import faust  # noqa: PLC0415  # see above
    from faust.streams import _current_event  # noqa: PLC0415  # see above
    from faust.types import TP  # noqa: PLC0415  # see above

    class Message:
        def __init__(self, tp: Any, key: bytes, value: bytes | None, offset: int) -> None:
            self.tp, self.partition = tp, tp.partition
            self.key, self.value, self.offset, self.timestamp = key, value, offset, 15.0

    class Event:
        def __init__(self, message: Message) -> None:
            self.message = message

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = faust.App("shop", store="rocksdb://", datadir=directory, autodiscover=False, loop=loop)
    counts = app.Table("counts", partitions=2, key_type=str, options={"driver": "rocksdict"})
    visits = app.Table("visits", partitions=2, default=int, options={"driver": "rocksdict"})
    hops = app.Table("hops", partitions=1, default=int, options={"driver": "rocksdict"})
    expected: dict[str, Any] = {}
    for partition, words in ((0, ("delta", "sugar", "milk")), (1, ("echo", "tea"))):
        tp = TP("shop-counts-changelog", partition)
        counts.data.partition_path(partition).parent.mkdir(parents=True, exist_ok=True)
        event = Event(Message(tp, b"", b"", 0))
        token = _current_event.set(ref(event))
        counts.data.persisted_offset(tp)
        for number, word in enumerate(words):
            counts.data[word] = {"n": number}
        # What a restore applies: the last word goes again.
        last = counts.data._encode_key(words[-1])  # noqa: SLF001  # the codec of the table
        counts.data.apply_changelog_batch(
            [Event(Message(tp, last, None, 20 + partition))], None, None
        )
        expected[f"counts/{partition}"] = {
            word: counts.data.get(word) for word in words if word in counts.data
        }
        _current_event.reset(token)
    for table in (visits.tumbling(10.0).table, hops.hopping(10.0, 2.5).table):
        expected |= _write_windows_of(table, Event, Message, TP)
    for table in (counts, visits, hops):
        for database in table.data._dbs.values():  # noqa: SLF001  # only a running app closes them
            database.close()
        table.data._dbs.clear()  # noqa: SLF001  # the same
    asyncio.set_event_loop(None)
    loop.close()
    return expected


def _write_windows_of(table: Any, event_type: Any, message_type: Any, tp_type: Any) -> Any:
    """Write a windowed table of Faust as it does when a key is set; return what it then reads."""
    from faust.streams import _current_event  # noqa: PLC0415  # see above

    expected = {}
    for partition in range(table.partitions):
        tp = tp_type(f"shop-{table.name}-changelog", partition)
        event = event_type(message_type(tp, b"", b"", 0))
        token = _current_event.set(ref(event))
        table.data.persisted_offset(tp)
        written: list[Any] = []
        for key, seconds in (("anna", 1_700_000_003.5), ("b|ob", 12.0), (["list", 1], 21.25)):
            for window in table._window_ranges(seconds):  # noqa: SLF001  # what it does, as said
                table.data[(key, window)] = partition + len(written)
                written.append((key, window))
        expected[f"{table.name}/{partition}"] = [
            [key, round(window[0] * 1_000), table.data.get((key, window))]
            for key, window in written
        ]
        _current_event.reset(token)
    return expected


def write_bytewax(directory: Path) -> dict[str, Any]:
    """Write the recovery store of a dataflow that ran twice; one key was discarded."""
    import bytewax.operators as op  # noqa: PLC0415  # see above
    from bytewax.dataflow import Dataflow  # noqa: PLC0415  # see above
    from bytewax.recovery import RecoveryConfig, init_db_dir  # noqa: PLC0415  # see above
    from bytewax.testing import TestingSink, TestingSource, run_main  # noqa: PLC0415  # see above

    directory.mkdir(parents=True)
    init_db_dir(directory, 2)
    seen: list[tuple[str, int]] = []
    lines: list[Any] = [("anna", 3), ("bob", 5), ("anna", 4), ("carla", 1), TestingSource.EOF()]
    lines += [("anna", 10), ("bob", None), ("dora", 2)]

    def add(total: int | None, value: int | None) -> tuple[int | None, int]:
        if value is None:
            return None, -1
        return (total or 0) + value, (total or 0) + value

    flow = Dataflow("sums")
    stream = op.input("lines", flow, TestingSource(lines))
    op.output("out", op.stateful_map("sum", stream, add), TestingSink(seen))
    for _ in range(2):
        run_main(
            flow,
            epoch_interval=timedelta(0),
            recovery_config=RecoveryConfig(str(directory), backup_interval=timedelta(days=1)),
        )
    for part in directory.glob("*.sqlite3"):
        with closing(sqlite3.connect(part)) as database:
            database.execute("pragma wal_checkpoint(truncate)")
            database.execute("pragma journal_mode = delete")
            database.execute("vacuum")
    return dict(seen)


def main() -> None:
    """Write all three into ``peers.tar.xz`` and ``peers.json`` of the directory that is named."""
    archive = Path(sys.argv[1], "peers.tar.xz")
    with tempfile.TemporaryDirectory() as scratch:
        _write(Path(scratch), archive)


def _write(target: Path, archive: Path) -> None:
    expected = {
        "made by": {name: version(name) for name in LIBRARIES},
        "quix": write_quix(target / "quix"),
        "faust": write_faust(target / "faust"),
        "bytewax": write_bytewax(target / "bytewax"),
    }
    for path in target.rglob("*"):
        if path.is_file() and path.name.startswith(_LEFT_OUT):
            path.unlink()
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(target, ".")
    text = json.dumps(expected, indent=2, sort_keys=True)
    archive.with_name("peers.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
