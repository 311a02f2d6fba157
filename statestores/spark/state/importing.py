"""The state of a streaming query, read by Spark's own source, into a store of a state root."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
    StoreCorruptedError,
    StoreMismatchError,
)
from statestores.files.durable_json import check_format, read_fields
from statestores.migration.spark.export import EXPORT_FILE
from statestores.reading.partition_reader import PartitionReader
from statestores.serdes import specification_from_description
from statestores.spark.columns import from_spark
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.session.worker_python import check_worker_python
from statestores.spark.source.write_plan import WritePlan, plan_write
from statestores.spark.source_name import SOURCE_NAME
from statestores.spark.state.catalog import (
    SparkStateStore,
    choose_state_store,
    list_state_stores,
    reporting_spark,
)
from statestores.spark.state.columns import (
    key_side,
    value_side,
    with_names_of_their_own,
    with_rows_made_anew,
)
from statestores.spark.store_options import options_of
from statestores.spi.kinds import DERIVED_COLUMNS
from statestores.spi.specification import KeyValue, StoreSpecification
from statestores.state_root import StateRoot

_EXPORT_FORMAT: Final = 1
_DIGEST_BYTES: Final = 8
_NO_LONGER_COMPARED: Final = DERIVED_COLUMNS  # a store numbers and ends its rows itself


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSelection:
    """What is read from a checkpoint, and how it becomes key and value."""

    operator_id: int | None = None
    """The operator; needed when several have state."""

    store_name: str | None = None
    """The state store of the operator; needed when it has several."""

    batch_id: int | None = None
    """The state after this batch; by default after the last one."""

    variable: str | None = None
    """The state variable of a transformWithState; needed for such an operator."""

    join_side: str | None = None
    """``left`` or ``right``, of a stream-stream join: its rows instead of its stores."""

    key: str | None = None
    """An SQL expression over the columns of Spark's source, instead of the whole key."""

    value: str | None = None
    """The same for the value."""

    key_serde: str | None = None
    """The serde of the key; by default the one for its type, and JSON for several columns."""

    value_serde: str | None = None
    """The same for the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkImport:
    """What has been imported, and compared."""

    specification: StoreSpecification[Any, Any]
    """The store that has been made."""

    partitions: int
    """Its partitions."""

    rows: int
    """Its rows: as many as the state had."""

    checksum: int
    """The sum of the rows' digests, the same on both sides."""

    source: SparkStateStore
    """The state store from which they came."""


def import_spark_state(
    spark: SparkSession,
    checkpoint: str | PathLike[str],
    root: str | PathLike[str],
    selection: StateSelection | None = None,
    *,
    store: str | None = None,
    partitions: int | None = None,
) -> SparkImport:
    """Make a store of the state root *root* from the state in *checkpoint*, all of it or none.

    The state root is made if need be; the store must not be there yet. State that
    `export_spark_checkpoint` has written becomes the store that it was, of any kind. Afterwards the
    rows on both sides are counted and their checksums compared.

    Args:
        spark: A session; what it registers for the name ``statestore`` does not matter.
        checkpoint: The checkpoint's directory.
        root: The state root.
        selection: What to read; not needed when there is one state store.
        store: The name of the store; by default that of Spark's operator, and of its store if it
            has several.
        partitions: How many it has; by default as many as the state.

    Raises:
        MissingDriverError: Spark's workers run in another Python, without what is needed.
        StoreNotFoundError: There is no checkpoint, no state in it, or no such state store.
        InvalidArgumentError: Several state stores could be meant, a serde does not take the
            columns, or there are two rows of a key.
        InvalidOptionError: The store is there already, or the root is something else.
        SerializationError: A key or value is null where its serde has no null.
        StorageError: Spark cannot read the state, or the store cannot be written.
        StoreMismatchError: The store is not what was read; it is there, and not to be used.
    """
    wanted = selection or StateSelection()
    check_worker_python(spark)
    place, target = Path(checkpoint).absolute(), Path(root).absolute()
    stores = list_state_stores(spark, place)
    chosen = choose_state_store(stores, wanted.operator_id, wanted.store_name, wanted.join_side)
    if chosen.variables and wanted.variable is None:
        raise InvalidArgumentError(
            f"the state is that of a transformWithState with the variables "
            f"{', '.join(chosen.variables)}; choose one, with --variable NAME"
        )
    exported = _exported(place)
    with reporting_spark(f"read the state in {str(place)!r}"):
        state = _read(spark, place, chosen, wanted)
        if exported is None:
            rows, options = _columns(state, wanted)
        else:
            rows, options = _exported_columns(state, exported, wanted)
    options |= {
        "storeName": store or _name_of(chosen, stores, exported, wanted.join_side),
        "numPartitions": str(partitions or chosen.partitions),
        "ifExists": "fail",
    }
    wanted_options = SourceOptions.for_writing({**options, "path": str(target)})
    plan = plan_write(GivenRoot(target), wanted_options, rows.schema)
    rows = rows.persist()
    try:
        with reporting_spark(f"read the state in {str(place)!r}"):
            before = _summary_of_frame(rows, plan)
        if wanted.key is not None or wanted.join_side is not None:
            _check_unique(rows, before[0])
        with reporting_spark(f"write the store {plan.specification.name!r}"):
            rows.write.format(SOURCE_NAME).options(**options).mode("append").save(str(target))
    finally:
        rows.unpersist()
    after = _summary_of_store(StateRoot.open(target), plan.specification.name)
    if before != after:
        raise StoreMismatchError(
            f"the store {plan.specification.name!r} has {after[0]} rows with the checksum "
            f"{after[1]:x}, and the state {before[0]} with {before[1]:x}; do not use the store"
        )
    return SparkImport(
        specification=plan.specification,
        partitions=plan.partitions,
        rows=before[0],
        checksum=before[1],
        source=chosen,
    )


def _read(
    spark: SparkSession, checkpoint: Path, chosen: SparkStateStore, wanted: StateSelection
) -> DataFrame:
    """Return the rows of the state, as Spark's own source gives them."""
    options: dict[str, Any] = {"operatorId": chosen.operator_id}
    if wanted.join_side is not None:
        options["joinSide"] = wanted.join_side
    else:
        options["storeName"] = chosen.store_name
    if wanted.batch_id is not None:
        options["batchId"] = wanted.batch_id
    if wanted.variable is not None:
        del options["storeName"]
        options |= {"stateVarName": wanted.variable, "flattenCollectionTypes": False}
    state = spark.read.format("statestore").options(**options).load(str(checkpoint))
    if "map_value" in state.columns:
        # The keys of such a map are rows, of which JSON would have the bytes: a row for each key.
        options["flattenCollectionTypes"] = True
        state = spark.read.format("statestore").options(**options).load(str(checkpoint))
    state = with_names_of_their_own(state)
    # Spark's rows of a side have one more place than they say, at which a whole row fails.
    return state if wanted.join_side is None else with_rows_made_anew(state)


def _columns(state: DataFrame, wanted: StateSelection) -> tuple[DataFrame, dict[str, str]]:
    """Return the key and value of each row, and the options that say what they are."""
    key = key_side(state, wanted.key, wanted.key_serde)
    value = value_side(state, wanted.value, wanted.value_serde)
    rows = state.select(key.column.alias("key"), value.column.alias("value"))
    return rows, {"storeKind": KeyValue.kind, "keySerde": key.serde, "valueSerde": value.serde}


@dataclass(frozen=True, slots=True)
class _Exported:
    """What `EXPORT_FILE` says."""

    specification: StoreSpecification[Any, Any]
    raw: bool


def _exported(checkpoint: Path) -> _Exported | None:
    """Return what the checkpoint was exported from; ``None`` when it is a query's own.

    Raises:
        UnsupportedFormatError: A later release has exported it.
        StoreCorruptedError, StorageError: The file cannot be read.
    """
    file = checkpoint / EXPORT_FILE
    fields = read_fields(file)
    if fields is None:
        return None
    check_format(fields, file, _EXPORT_FORMAT)
    try:
        specification = specification_from_description(fields.mapping("specification"))
    except (InvalidArgumentError, InvalidTypeError) as error:
        raise StoreCorruptedError(f"{str(file)!r} describes no store: {error}") from error
    return _Exported(specification, fields.flag("raw"))


def _exported_columns(
    state: DataFrame, exported: _Exported, wanted: StateSelection
) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows that were exported, and the options that say what they are."""
    if any((wanted.key, wanted.value, wanted.key_serde, wanted.value_serde)):
        raise InvalidArgumentError(
            "the checkpoint says itself what its keys and values are: leave --key, --value and "
            f"their serdes out, or remove its {EXPORT_FILE} to take it as any other"
        )
    rows = state.select("key.*", "value.*")
    if "sequence" in rows.columns:
        rows = rows.sortWithinPartitions("key", "window_start", "sequence")
    options = options_of(exported.specification)
    if exported.raw:
        options["raw"] = "true"
    return rows, options


def _name_of(
    chosen: SparkStateStore,
    stores: list[SparkStateStore],
    exported: _Exported | None,
    join_side: str | None,
) -> str:
    """Return how the new store is called, if nobody says."""
    if exported is not None:
        return exported.specification.name
    several_operators = len({store.operator_id for store in stores}) > 1
    number = f"-{chosen.operator_id}" if several_operators else ""
    part = join_side or chosen.store_name
    store = "" if part == "default" else f"-{part}"
    return f"{chosen.operator_name}{number}{store}"


def _check_unique(rows: DataFrame, count: int) -> None:
    """Accept *rows*, of which there are *count*, if each has a key of its own.

    Raises:
        InvalidArgumentError: Two rows have one key.
    """
    with reporting_spark("read the state"):
        repeated = count - rows.select("key").distinct().count()
    if repeated:
        raise InvalidArgumentError(
            f"the state has rows with the key of another one: {repeated}; choose a --key that "
            "tells them apart"
        )


def _summary_of_frame(rows: DataFrame, plan: WritePlan) -> tuple[int, int]:
    """Return the number of *rows* and the sum of their digests, as the store will have them.

    One query does that and looks for nulls: what it costs to plan one is most of what an import
    takes.

    Raises:
        SerializationError: A key or value is null where a store has none.
    """
    specification, raw = plan.specification, plan.raw
    names = ["key"]
    if type(specification) is KeyValue:
        names.append("value")  # there it would mean a deletion

    def summarize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nulls = dict.fromkeys(names, 0)

        def rows_of_store() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for name in names:
                    nulls[name] += batch[name].null_count
                if not any(nulls.values()):
                    yield from_spark(batch, specification, raw=raw)

        count, total = _summary(rows_of_store())
        yield pa.RecordBatch.from_pydict(
            {
                "rows": [count],
                "checksum": [str(total)],
                "null_keys": [nulls["key"]],
                "null_values": [nulls.get("value", 0)],
            }
        )

    columns = "rows long, checksum string, null_keys long, null_values long"
    parts = rows.mapInArrow(summarize, columns).collect()
    for name, found in (
        ("key", sum(part.null_keys for part in parts)),
        ("value", sum(part.null_values for part in parts)),
    ):
        if found:
            raise SerializationError(
                f"the state has a null {name}, in rows: {found}; a store has none: take it as a "
                f"JSON object, with --{name}-serde json"
            )
    return sum(part.rows for part in parts), _wrapped(sum(int(part.checksum) for part in parts))


def _summary_of_store(root: StateRoot, name: str) -> tuple[int, int]:
    """Return the same of a store that has been written, from its files."""
    entry = root.store(name)
    readers = [
        PartitionReader(root.partition(name, number), entry.specification)
        for number in range(entry.partitions)
    ]
    return _summary(rows for reader in readers for rows in reader.replay().rows())


def _summary(batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Return how many rows there are, and a sum of digests that does not depend on their order."""
    rows = total = 0
    for batch in batches:
        columns = [
            column.to_pylist()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name not in _NO_LONGER_COMPARED
        ]
        for key, value, *numbers in zip(*columns, strict=True):
            digest = hashlib.blake2b(key, digest_size=_DIGEST_BYTES)
            digest.update(f"{len(key)} {numbers} {value is None} ".encode())
            digest.update(value or b"")
            total += int.from_bytes(digest.digest())
        rows += batch.num_rows
    return rows, _wrapped(total)


def _wrapped(total: int) -> int:
    return total % (1 << (8 * _DIGEST_BYTES))
