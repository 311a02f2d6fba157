"""A program with a session that looks into its state, and then has a pool of forked processes."""

import json
import multiprocessing
import sys
from collections.abc import Callable
from functools import partial

from driver_session import started

import statestores as ss
from statestores.changelog import ChangelogReader
from statestores.errors import StoreClosedError
from statestores.storage import open_storage

_STORE = "counts"
_KEYS = 40
_SECONDS = 60

_held: list[Callable[[], int]] = []
"""In a child, what uses the store that its parent has open."""


def main(root: str) -> None:
    """Write by Spark, look at it, and ask children for the same."""
    with started("local[2]", spark__sql__shuffle__partitions="1") as spark:
        frame = spark.range(_KEYS).selectExpr("CAST(id AS string) AS key", "id AS value")
        writer = frame.write.format("statestores").option("storeName", _STORE)
        writer.option("numPartitions", 1).mode("append").save(root)
        use_objects()
        with ss.open_logged_store(root, _STORE, 0, backend="rocksdb") as logged:

            def keys() -> int:
                return sum(1 for _ in logged.store.range())

            told: dict[str, object] = {"read by the parent": keys()}
            told |= told_by_children(root, keys)
            told["read by the parent afterwards"] = keys()
    sys.stdout.write(json.dumps(told) + "\n")


def told_by_children(root: str, use_of_parent: Callable[[], int]) -> dict[str, object]:
    """Return what a pool of forked processes says to each thing that is asked of it."""
    asked: dict[str, Callable[[], object]] = {
        "RocksDB": partial(use_new_store, f"{root}-of-a-child"),
        "obstore": use_objects,
        "what the parent has open": use_held,
        "read by a child": partial(keys_of_log, f"{root}/{_STORE}/0/changelog"),
    }
    told: dict[str, object] = {}
    with multiprocessing.get_context("fork").Pool(2, _held.append, (use_of_parent,)) as pool:
        for name, ask in asked.items():
            try:
                told[name] = pool.apply_async(ask).get(_SECONDS)
            except StoreClosedError as error:
                told[name] = str(error)
    return told


def use_new_store(path: str) -> None:
    """Open a store of the child's own, and close it."""
    ss.open_store(path, ss.KeyValue("own"), backend="rocksdb").close()


def use_objects() -> int:
    """Put an object."""
    storage = open_storage("memory://forking-driver/root")
    storage.create("a", b"1")
    return len(list(storage.list("")))


def use_held() -> int:
    """Use the store that the parent has open."""
    (use,) = _held
    return use()


def keys_of_log(changelog: str) -> int:
    """Read what Spark has written, without an engine."""
    frames = ChangelogReader.open(changelog).read()
    return len({key for frame in frames for key in frame.changes.keys})


if __name__ == "__main__":
    main(sys.argv[1])
