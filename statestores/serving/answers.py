"""Questions answered from what is served: judged, bounded, and counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import Any

import pyarrow as pa

from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    LimitExceededError,
    NotUpToBoundError,
    StateStoreError,
)
from statestores.query import QueryableStores
from statestores.query.store_types import type_of_kind
from statestores.reading.change_feed import feed_schema
from statestores.serdes.typed_stores.delegation import DelegatingReadOnlyStore
from statestores.serving.limits import Deadline, Limits, within
from statestores.serving.query import Query, position_as_json
from statestores.serving.reads import Row, check_fields, row_names, rows_of, wire_schema
from statestores.serving.served import Served
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.stream_time import ReadOnlyTimedStore

_ROWS_OF_A_BATCH = 4096
_BYTES_OF_A_BATCH = 4 * 1024 * 1024
_STALLED_TIMES = 4
"""How many times `Limits.max_concurrent` answers there are, with those whose time is over."""

_CATCH_UPS = 5
"""How often copies are brought up to their changelogs for one read, when writers go on."""


class Answers:
    """Answers questions about the stores of *served*, within *limits*."""

    def __init__(
        self,
        served: Served,
        limits: Limits | None = None,
        queries: QueryableStores | None = None,
    ) -> None:
        """Answer from *served*, or reads by *queries*, which may ask elsewhere too."""
        self.served = served
        self.limits = limits or Limits()
        self._stores = QueryableStores(served) if queries is None else queries
        self._lock = Lock()
        self._running: set[Deadline] = set()

    @property
    def most_running(self) -> int:
        """How many answers there are at most at the same time, with those whose time is over."""
        return _STALLED_TIMES * self.limits.max_concurrent

    @contextmanager
    def turn(self) -> Iterator[Deadline]:
        """Give the deadline of one answer, as one of those that run at the same time.

        Raises:
            InvalidStateStoreError: Too many run; try again, here or elsewhere.
        """
        mine = Deadline(self.limits.max_ms)
        with self._lock:
            most = self.limits.max_concurrent
            if len(self._running) >= most:
                # Who reads nothing of an answer cannot be stopped, and holds up nobody else for it.
                timely = sum(not each.is_over for each in self._running)
                if timely >= most or len(self._running) >= self.most_running:
                    raise InvalidStateStoreError(
                        f"this instance answers {most} queries at a time, and does; try again"
                    )
            self._running.add(mine)
        try:
            yield mine
        finally:
            with self._lock:
                self._running.discard(mine)

    def rows(
        self, query: Query, deadline: Deadline, *, is_stream: bool = False
    ) -> tuple[StoreSpecification[Any, Any], Iterator[Row]]:
        """Return the store's specification, and the rows that answer *query*.

        Raises:
            StateStoreError: As the read; at its call, but for what comes in the middle.
        """
        limits = self.limits
        if query.keys is not None and len(query.keys) > limits.max_rows:
            raise LimitExceededError(f"a batch has up to {limits.max_rows} keys; ask in parts")
        store = self._store(query)
        found = self._fresh(query, lambda: rows_of(store, query))
        most = limits.max_stream_rows if is_stream else limits.max_rows
        if query.limit is not None:
            if query.limit > most + 1:  # one more than is shown says that there are more
                raise LimitExceededError(f"the limit is up to {most} rows, got {query.limit}")
            found = islice(found, query.limit)
        counted = within(
            found,
            max_rows=most if query.limit is None else most + 1,
            max_bytes=None if is_stream else limits.max_bytes,
            deadline=deadline,
        )
        return store.specification, counted

    def batches(
        self, query: Query, deadline: Deadline
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the same as columns of bytes, a batch after the other.

        Raises:
            StateStoreError: As `rows`.
        """
        if query.read == "changes":
            return self._changes(query, deadline)
        specification, rows = self.rows(query, deadline, is_stream=True)
        schema = wire_schema(specification.kind)
        return schema, _batches(schema, rows, deadline)

    def _changes(
        self, query: Query, deadline: Deadline
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the changes of a partition, from an offset up to what is its end now."""
        check_fields(query, set(), {"from_offset"})
        specification = self.served.specification(query.store)
        partition, count = query.partition, self.served.partition_count(query.store)
        if partition is None or partition >= count:
            raise InvalidArgumentError(
                f"changes are of one partition; {query.store!r} has 0 to {count - 1}, got "
                f"{partition!r}"
            )
        _, batches = self.served.changes(query.store, partition, query.from_offset)
        return feed_schema(specification, typed=False), _timely(batches, deadline)

    def about(self, query: Query) -> dict[str, Any]:
        """Return what can be asked of a whole store: positions, stream time, entries.

        Raises:
            StateStoreError: It cannot be read here.
        """
        if query.read != "about":
            raise InvalidArgumentError(f"'about' is asked for here, got {query.read!r}")
        check_fields(query, set(), set())
        store = self._store(query)

        def look() -> Any:
            found: dict[str, Any] = {"position": position_as_json(store.position)}
            if isinstance(store, ReadOnlyTimedStore):
                found["stream_time_ms"] = store.stream_time_ms
            if hasattr(store, "approximate_num_entries"):
                found["entries"] = store.approximate_num_entries()
            return found

        found: dict[str, Any] = self._fresh(query, look)
        return found

    def _store(self, query: Query) -> Any:
        """Return the composite of bytes that *query* asks."""
        if self.served.answers_from_copies and not query.include_stale:
            # A copy that lacks nothing is as good as the owner; one that lacks something is not.
            query = replace(query, include_stale=True, max_lag=0)
        kind = self.served.specification(query.store).kind
        store: Any = self._stores.store(
            query.store,
            type_of_kind(kind),
            include_stale=query.include_stale,
            partition=query.partition,
            at_least=query.at_least,
            max_lag=query.max_lag,
        )
        return store.store_of_bytes if isinstance(store, DelegatingReadOnlyStore) else store

    def _fresh(self, query: Query, read: Any) -> Any:
        """Return what *read* gives; copies catch up if they lack what is asked for.

        A copy that cannot go on keeps no read of another one from its answer (SRV-27).
        """
        failure: StateStoreError | None = None
        for _ in range(_CATCH_UPS if self.served.answers_from_copies else 0):
            try:
                return read()
            except NotUpToBoundError:
                try:
                    self.served.catch_up(query.store)
                except StateStoreError as error:
                    failure = error
        try:
            return read()
        except NotUpToBoundError as behind:
            if failure is not None:
                raise failure from behind
            raise


def names_of(specification: StoreSpecification[Any, Any]) -> tuple[str, ...]:
    """Return what the columns of a store's rows are called."""
    return row_names(specification.kind)


def batch_of(schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    """Return *rows* as columns."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _timely(batches: Iterator[pa.RecordBatch], deadline: Deadline) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        deadline.check()
        yield batch


def _batches(
    schema: pa.Schema, rows: Iterator[Row], deadline: Deadline
) -> Iterator[pa.RecordBatch]:
    chunk: list[Row] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row[0]) + len(row[1] or b"")
        if len(chunk) == _ROWS_OF_A_BATCH or size >= _BYTES_OF_A_BATCH:
            deadline.check()
            yield batch_of(schema, chunk)
            chunk, size = [], 0
    if chunk:
        deadline.check()
        yield batch_of(schema, chunk)
