"""Stateful processing of a streaming DataFrame with stores: `stateful`."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.opening import DEFAULT_BACKEND
from statestores.registry import load_backend
from statestores.semantics.every_kind.arguments import check_time
from statestores.spark.column_names import own_name
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import PLACE_COLUMN, Placement
from statestores.spark.local_copy import CopyOptions
from statestores.spark.map_batches import map_batches
from statestores.spark.session.name_routing import is_connect
from statestores.spark.session.query_session import query_id
from statestores.spark.session.sendable import check_sendable
from statestores.spark.session.worker_python import check_worker_python
from statestores.spark.stateful_functions.micro_batch import MicroBatch
from statestores.spark.stateful_functions.operators import operator_batches
from statestores.spark.stateful_functions.output import declared_schema, emitted_frame
from statestores.spark.stateful_functions.plan import (
    By,
    StatefulFunction,
    StatefulPlan,
    add_stores,
    check_key_column,
    operator_name,
    resolve_stores,
)
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.spi.specification import StoreSpecification

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Sink: TypeAlias = Callable[["DataFrame", int], object]
"""What is done with the rows that a micro-batch has emitted, as in Spark's ``foreachBatch``."""


class Operator:
    """What is computed, without the DataFrame: what is left where a batch is handled."""

    def __init__(self, plan: StatefulPlan, columns: "StructType") -> None:
        """Compute *plan*, emitting *columns*."""
        self._plan = plan
        self._columns = columns
        self._batches = operator_batches(plan)
        self._placement = Placement(
            specification=plan.specifications[0],
            partitions=plan.partitions,
            key=plan.key,
            keeps_nulls=False,
        )

    def process(self, frame: "DataFrame", number: int, *, is_in_sequence: bool) -> "DataFrame":
        """Compute and commit one micro-batch, and return what it has emitted."""
        spark = frame.sparkSession
        batch = MicroBatch(query=query_id(spark), number=number, is_in_sequence=is_in_sequence)

        def compute(task: StatefulTask) -> Sequence[TaskResult]:
            try:
                placed = self._placement.shuffled(frame)
                rows = map_batches(placed, task.run, StructType().add("result", "string"))
                return [TaskResult.from_json(row.result) for row in rows.collect()]
            except BaseException:
                self._batches.give_up(batch)
                raise

        record = self._batches.run(batch, compute)
        outputs = self._plan.outputs(record.write_id)
        return emitted_frame(spark, outputs, record.outputs, self._columns)


class StatefulStream:
    """A streaming DataFrame and what is computed on it. Made by `stateful`."""

    def __init__(self, frame: "DataFrame", operator: Operator) -> None:
        """Compute *operator* on *frame*."""
        self._frame = frame
        self._operator = operator

    def foreachBatch(self, sink: Sink | None = None) -> "DataStreamWriter":  # noqa: N802  # Spark's name
        """Return the writer of the query, to be given a checkpoint and a trigger, and started.

        *sink* gets the rows that each micro-batch has emitted, and its number. A micro-batch that
        comes again, after a crash or when *sink* has raised, comes with the same rows and is not
        computed again; so a sink that replaces what it has written under that number has each
        row once. Without a sink the rows are dropped, and the state is what is computed.
        """
        operator = self._operator

        def process(batch: "DataFrame", number: int) -> None:
            emitted = operator.process(batch, number, is_in_sequence=True)
            if sink is not None:
                sink(emitted, number)

        return self._frame.writeStream.foreachBatch(process)

    def process(self, batch: "DataFrame", number: int) -> "DataFrame":
        """Compute one micro-batch, commit it, and return the rows that it has emitted.

        For a ``foreachBatch`` function of one's own, whose two arguments these are. The rows lie
        in files, and may be read more than once, until the next micro-batch is computed.

        Raises:
            StoreMismatchError: The state has later micro-batches of the query than this one.
            CommitConflictError, StoreLockedError: Another program has written to a store meanwhile,
                or had it for longer than *commit_timeout_ms*. Nothing is committed.
            InvalidArgumentError: It is not called within a query.
            StateStoreError: As the tasks find it, within what Spark raises.
        """
        return self._operator.process(batch, number, is_in_sequence=False)


def stateful(
    frame: "DataFrame",
    *,
    key: str,
    stores: Sequence[StoreSpecification[Any, Any] | str],
    function: StatefulFunction,
    output_schema: "StructType | str",
    state: str | PathLike[str],
    by: By = "batches",
    name: str | None = None,
    partitions: int | None = None,
    local_directory: str | PathLike[str] | None = None,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    commit_timeout_ms: int = COMMIT_TIMEOUT_MS,
    storage_options: Mapping[str, object] | None = None,
) -> StatefulStream:
    """Compute on a streaming DataFrame with stores that keep what was seen before.

    Rows of one key go to one partition, that of the stores. For each partition that has rows in a
    micro-batch, *function* is called with these rows and the partition's open stores, and emits
    rows. State and emitted rows of a micro-batch are committed together, once, whatever task is
    repeated, runs twice or dies, and whoever dies on the way to the sink.

    Args:
        frame: The streaming DataFrame.
        key: The column of keys, of the type of the stores' key serde; no key may be null.
        stores: The stores, as specifications, which are added to the state root when they are not
            there, or by name. Their keys have one serde. The function reads and writes keys of
            its partition only: those of the column.
        function: Takes an iterator of rows and the `OpenStores`, and returns an iterable of rows,
            a generator for example, or ``None``. It is sent to Spark's workers.
        output_schema: The columns that the function emits, as a schema or as DDL.
        state: The state root, on a file system that the driver and all executors share, or its URL
            in an object store. It is made when there is none.
        by: ``"batches"`` for ``pyarrow.RecordBatch``, in and out; out also ``pyarrow.Table``.
            ``"rows"`` for dictionaries, in and out, which is far slower.
        name: What the state root knows the function by, which must not change while its checkpoint
            is used; by default the name of its first store.
        partitions: How many partitions new stores have, by default 4. A reshard changes it.
        local_directory: Where the machines keep copies of the stores; see `CopyOptions`.
        backend: The backend of these copies.
        options: The backend's own options.
        commit_timeout_ms: How long a micro-batch waits while another writer has one of the stores;
            0 does not wait.
        storage_options: How the object store of a URL is reached (`StateRoot.open`); by default as
            the environment of driver and executors says.

    Raises:
        InvalidTypeError: An argument is of the wrong type; the key column is not of the type of
            the keys; the function cannot be sent to workers.
        InvalidArgumentError: An argument is not allowed, *frame* is no stream or is one of Spark
            Connect, or the column is not there.
        StoreNotFoundError: A store that is named is not there.
        StoreMismatchError: A store is there and is another one, or has other partitions.
        UnknownBackendError, InvalidOptionError: The backend, the path or *storage_options* cannot
            be used.
        MissingDriverError: Spark's workers run in another Python, without what is needed.
    """
    if is_connect(frame.sparkSession):
        raise InvalidArgumentError(
            "stateful() needs a classic session: Spark Connect does not tell foreachBatch of which "
            "query a micro-batch is, so one that comes again could not be recognised"
        )
    if not frame.isStreaming:
        raise InvalidArgumentError(
            "the DataFrame is no stream: read it with readStream; a batch is written to a store "
            "with write.format('statestores')"
        )
    check_time("commit_timeout_ms", commit_timeout_ms)
    if by not in {"batches", "rows"}:
        raise InvalidArgumentError(f"by is 'batches' or 'rows', got {by!r}")
    check_worker_python(frame.sparkSession)
    _check_function(function)
    key = own_name(frame, key)
    key_type = _type_of(frame, key)
    columns = _columns(output_schema)
    root = GivenRoot.of(fspath(state), storage_options)
    specifications, count = resolve_stores(root, stores, partitions)
    check_key_column(key, key_type, specifications[0])
    plan = StatefulPlan(
        place=root,
        name=operator_name(name, specifications),
        specifications=specifications,
        partitions=count,
        key=key,
        function=function,
        by=by,
        schema=declared_schema(columns),
        copies=CopyOptions(
            directory=None if local_directory is None else fspath(local_directory),
            backend=backend,
            options=dict(options or {}),
        ),
        commit_timeout_ms=commit_timeout_ms,
    )
    load_backend(backend or DEFAULT_BACKEND)
    add_stores(root, specifications, count)
    return StatefulStream(frame, Operator(plan, columns))


def _check_function(function: object) -> None:
    """Accept a function that Spark can send to its workers.

    Raises:
        InvalidTypeError: It is not a function, or holds something that cannot be sent.
    """
    if not callable(function):
        raise InvalidTypeError(f"function must be callable, got {function!r}")
    check_sendable(
        function,
        f"the function {getattr(function, '__name__', function)!r}",
        "open files, connections and locks inside of it",
    )


def _type_of(frame: "DataFrame", column: str) -> "pa.DataType":
    """Return the type of *column* as Arrow has it.

    Raises:
        InvalidArgumentError: There is no such column, or two; or one has a name of ours.
    """
    names = frame.schema.names
    if names.count(column) != 1:
        raise InvalidArgumentError(
            f"the DataFrame has the key column {column!r} {names.count(column)} times; its columns "
            f"are: {', '.join(names)}"
        )
    if PLACE_COLUMN in names:
        raise InvalidArgumentError(f"the column {PLACE_COLUMN!r} is for statestores; rename it")
    return declared_schema(StructType([frame.schema[column]])).field(0).type


def _columns(declared: "StructType | str") -> "StructType":
    """Return *declared* as a schema of Spark's.

    Raises:
        InvalidTypeError: It is neither a schema nor text.
        InvalidArgumentError: It is no DDL, or names a column twice.
    """
    columns: object = declared
    if isinstance(declared, str):
        try:
            columns = StructType.fromDDL(declared)
        except PySparkException as error:
            raise InvalidArgumentError(
                f"output_schema {declared!r} is no list of columns with types, such as "
                f"'word string, count long': {error}"
            ) from error
    if not isinstance(columns, StructType):
        raise InvalidTypeError(f"output_schema is a StructType or DDL, got {declared!r}")
    for name in columns.names:
        if columns.names.count(name) > 1:
            raise InvalidArgumentError(f"output_schema has the column {name!r} twice")
    return columns
