"""A reshard as Spark jobs: one task for each old partition, and then one for each new one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TypeVar

from pyspark.sql import SparkSession

from statestores.resharding import ReshardReport
from statestores.resharding import reshard as reshard_store
from statestores.resharding.reshard import MEMORY_BYTES
from statestores.spark.given_root import GivenRoot
from statestores.spark.in_tasks import check_session, in_tasks

T = TypeVar("T")


def reshard(
    spark: SparkSession,
    root: str | PathLike[str],
    store: str,
    partitions: int,
    *,
    to: str | PathLike[str] | None = None,
    to_storage_options: Mapping[str, object] | None = None,
    drop_expired: bool = False,
    keep_old: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    storage_options: Mapping[str, object] | None = None,
) -> ReshardReport:
    """Give *store* another number of *partitions*, as `statestores.resharding.reshard` does.

    Tasks of *spark* read the old partitions and write the new ones. The driver has what keeps
    others from writing, and has the new partitions count. A task that fails is tried again from its
    beginning and meets nothing of the attempt before.

    Directories are those that the driver and all executors share. Of a root in an object store
    nobody needs one: in place, and into such a root, the rows pass from task to task as objects
    there, of 64 MiB at most, which are removed when the new partitions count (RSH-20, OBJ-50).

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root, or its URL in an object store.
        store: The store's name.
        partitions: How many partitions it is to have.
        to: The directory of a state root that gets the store, or its URL in an object store; by
            default in place.
        to_storage_options: How the object store of *to* is reached.
        drop_expired: Whether rows may go that have expired by the furthest stream time.
        keep_old: Whether the old partitions stay on disk, or in the object store.
        memory_bytes: About as much memory as the rows of one task may take.
        storage_options: How the object store of a URL is reached (`StateRoot.open`); by default as
            the environment of driver and executors says.

    Raises:
        InvalidTypeError: That is no session.
        InvalidOptionError: A path is of another file system, or there are options of an object
            store for a path that is no URL.
        StateStoreError: As `statestores.resharding.reshard`, on the driver.
        PySparkException: A task failed; the store is as it was.
    """
    check_session(spark)

    def each(work: Sequence[Callable[[], T]]) -> Iterable[T]:
        return in_tasks(spark, work)

    return reshard_store(
        GivenRoot.of(str(root), storage_options).open_to_send(),
        store,
        partitions,
        to=None if to is None else GivenRoot.of(str(to), to_storage_options).place_to_send(),
        drop_expired=drop_expired,
        keep_old=keep_old,
        memory_bytes=memory_bytes,
        each=each,
    )
