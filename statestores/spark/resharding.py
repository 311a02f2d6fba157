"""A reshard as Spark jobs: one task for each old partition, and then one for each new one."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TypeVar

from pyspark.sql import SparkSession

from statestores.errors import InvalidOptionError
from statestores.resharding import ReshardReport
from statestores.resharding import reshard as reshard_store
from statestores.resharding.reshard import MEMORY_BYTES
from statestores.spark.in_tasks import check_session, in_tasks
from statestores.spark.state_path import require_local_path
from statestores.state_root import StateRoot
from statestores.storage import StorageUrl, is_storage_url

T = TypeVar("T")


def reshard(
    spark: SparkSession,
    root: str | PathLike[str],
    store: str,
    partitions: int,
    *,
    to: str | PathLike[str] | None = None,
    drop_expired: bool = False,
    keep_old: bool = False,
    memory_bytes: int = MEMORY_BYTES,
) -> ReshardReport:
    """Give *store* another number of *partitions*, as `statestores.resharding.reshard` does.

    Tasks of *spark* read the old partitions and write the new ones, so *root* and *to* are
    directories that the driver and all executors share. The driver has the locks of the store
    meanwhile, and has the new partitions count. A task that fails is tried again from its beginning
    and meets nothing of the attempt before.

    Args:
        spark: The session, classic or Connect.
        root: The directory of the state root.
        store: The store's name.
        partitions: How many partitions it is to have.
        to: The directory of a state root that gets the store; by default in place.
        drop_expired: Whether rows may go that have expired by the furthest stream time.
        keep_old: Whether the old partitions stay on disk.
        memory_bytes: About as much memory as the rows of one task may take.

    Raises:
        InvalidTypeError: That is no session.
        InvalidOptionError: A path is of another file system, or the URL of an object store.
        StateStoreError: As `statestores.resharding.reshard`, on the driver.
        PySparkException: A task failed; the store is as it was.
    """
    check_session(spark)
    if is_storage_url(root):
        shown = StorageUrl.parse(root)
        in_place = f"statestores reshard {shown} {store} --partitions {partitions}"
        raise InvalidOptionError(
            f"{shown!s} is in an object store, and the tasks of a reshard exchange files in a "
            f"directory that all of them see; run `{in_place}`, which does it on one machine "
            "(statestores.resharding.reshard)"
        )

    def each(work: Sequence[Callable[[], T]]) -> Iterable[T]:
        return in_tasks(spark, work)

    return reshard_store(
        StateRoot.open(require_local_path(str(root))),
        store,
        partitions,
        to=None if to is None else require_local_path(str(to)),
        drop_expired=drop_expired,
        keep_old=keep_old,
        memory_bytes=memory_bytes,
        each=each,
    )
