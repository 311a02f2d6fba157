"""Changes of versioned, window and session stores as rows of an engine: folded, then encoded.

A put of these kinds is judged by the stream time of its moment, and replay judges by the same rule
(COM-40). So a chunk of changes begins at the store's stream time, and what came too late within it
is left out as it was by the store that wrote them. What is left is the content that a reader of the
log sees, and is encoded as a snapshot's is.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.content_rows import EncodeContent, content_encoder
from statestores.arrow.engine_rows import EncodeChanges
from statestores.arrow.retained_tail import RetainedTail
from statestores.arrow.versioned_tail import VersionedTail
from statestores.semantics.progress import NO_STREAM_TIME
from statestores.semantics.retained_progress import REMOVALS_PER_WRITE
from statestores.semantics.sorted_rows import SortedRows
from statestores.spi.session_specification import Session
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.window_specification import Window

TailSince: TypeAlias = Callable[[int | None], RetainedTail | VersionedTail]
"""Makes a tail that begins at a stream time."""


def folded_encoder(specification: StoreSpecification[Any, Any]) -> EncodeChanges | None:
    """Return what encodes the changes of a store of these kinds; ``None`` for another kind.

    Those of a versioned store only into an empty one: where a version ends, and whether it is the
    latest, depends on those of its key that the store has.
    """
    encode = content_encoder(specification)
    if encode is None:
        return None
    if isinstance(specification, Versioned):
        return _Folded(_versions_since(specification), encode)
    if isinstance(specification, Window | Session):
        return _Folded(_retained_since(specification), encode, removes=REMOVALS_PER_WRITE)
    return None


class _Folded:
    """Encodes the changes of one store."""

    def __init__(self, tail_since: TailSince, encode: EncodeContent, *, removes: int = 0) -> None:
        """Fold by a tail that begins at a stream time; *removes* expired rows for each row."""
        self._tail_since = tail_since
        self._encode = encode
        self._removes = removes

    def __call__(
        self,
        changes: pa.RecordBatch,
        is_empty: bool,  # noqa: FBT001
        stream_time_ms: int | None,
    ) -> SortedRows:
        """Return *changes*, in log order, as rows of a store at *stream_time_ms*."""
        tail = self._tail_since(stream_time_ms)
        tail.add(changes)
        rows = tail.content() if is_empty else tail.folded()
        runs = self._encode(rows) if rows.num_rows else ()
        highest_ms = tail.stream_time_ms
        return SortedRows(
            # One namespace comes after the other, so together they are in order as well.
            rows=chain.from_iterable(run.rows for run in runs),
            has_deletions=not is_empty and bool(rows.column("value").null_count),
            highest_ms=NO_STREAM_TIME if highest_ms is None else highest_ms,
            next_number=_next_number(changes),
            removals=0 if is_empty else self._removes * rows.num_rows,
            **_lowest(runs),
        )


def _versions_since(specification: Versioned[Any, Any]) -> TailSince:
    retention_ms = specification.history_retention_ms
    return lambda stream_time_ms: VersionedTail(retention_ms, stream_time_ms=stream_time_ms)


def _retained_since(specification: Window[Any, Any] | Session[Any, Any]) -> TailSince:
    return lambda stream_time_ms: RetainedTail(specification, stream_time_ms=stream_time_ms)


def _lowest(runs: Sequence[SortedRows]) -> dict[str, int]:
    """Return the lowest time of *runs* as an argument; without any, the default stays."""
    return {"lowest_ms": min(run.lowest_ms for run in runs)} if runs else {}


def _next_number(changes: pa.RecordBatch) -> int:
    """Return a number above the sequences of *changes*, those that came too late included."""
    if "sequence" not in changes.schema.names:
        return 0
    highest: int | None = pc.max(changes.column("sequence")).as_py()
    return 0 if highest is None else highest + 1
