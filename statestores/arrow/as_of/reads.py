"""Many keys of a versioned store, each at a time of its own, as columns.

The latest row of each key is read once, and answers every question from its start on. What is left
is sorted by key and time, as the rows of the history are: one seek answers all questions between
the start and the end of the version that it finds, and where they are dense a scan steps past them.
Rows stay rows; their headers are read as columns.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.as_of.index import Found
from statestores.arrow.keys.ascending_seeks import AscendingSeeks
from statestores.arrow.rows.version_chains import split_headers
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import END
from statestores.semantics.versioned.facades import CommittedVersions
from statestores.semantics.versioned.rows import (
    DELETED,
    SUFFIX_BYTES,
    history_bounds,
    start_of,
)
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.semantics.versioned.view import VersionedView
from statestores.serdes.raw_serde import raw, serde_or_raw
from statestores.serdes.rows.hidden_nulls import without_hidden_nulls
from statestores.spi.records import VersionedRecord
from statestores.spi.stores.versioned import ReadOnlyVersionedStore

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_TIME = pa.int64()
_LARGE = pa.large_binary()
_TERMINATOR_BYTES = 2
_NOWHERE = -1


class _Versions(NamedTuple):
    """Versions that were found, by the places that answers name."""

    values: pa.Array
    starts: Numbers
    ends: pa.Array

    @classmethod
    def of_records(cls, records: list[VersionedRecord[bytes]]) -> "_Versions":
        return cls(
            pa.array([record.value for record in records], _LARGE),
            np.array([record.valid_from_ms for record in records], np.int64),
            pa.array([record.valid_to_ms for record in records], _TIME),
        )


class _Answers:
    """For each question, a place among versions, of several lots of versions."""

    def __init__(self, count: int) -> None:
        self.places = np.full(count, _NOWHERE)
        self._lots: list[_Versions] = []
        self._size = 0

    def add(self, questions: Numbers, places: Numbers, versions: _Versions) -> None:
        """Answer *questions* with *versions* at *places*, which may be nowhere."""
        self.places[questions] = np.where(places < 0, _NOWHERE, places + self._size)
        self._lots.append(versions)
        self._size += len(versions.starts)

    def found(self, asked: Numbers, count: int, decode: Any) -> Found:
        """Return the answers to the questions *asked*, of *count* in all; null to the others.

        Only values that answer something are decoded, and each of them once.
        """
        used = np.zeros(self._size + 1, np.bool_)
        used[self.places] = True  # nowhere is the last one
        used[-1] = False
        rows = np.full(count, _NOWHERE)
        rows[asked] = np.where(self.places < 0, _NOWHERE, (np.cumsum(used) - 1)[self.places])
        chosen, order = pa.array(np.flatnonzero(used)), pa.array(rows, mask=rows < 0)
        values = pa.concat_arrays([lot.values for lot in self._lots])
        starts = np.concatenate([lot.starts for lot in self._lots])
        ends = pa.concat_arrays([lot.ends for lot in self._lots])
        return Found(
            without_hidden_nulls(decode(values.take(chosen).cast(pa.binary())).take(order)),
            pa.array(starts).take(chosen).take(order),
            ends.take(chosen).take(order),
        )


def find_as_of(
    store: ReadOnlyVersionedStore[Any, Any],
    keys: pa.Array,
    times_ms: pa.Array,
    *,
    as_bytes: bool = False,
) -> Found:
    """Return the version of each of the encoded *keys* that is valid at its time, inclusive.

    *times_ms* is int64, from 0. Null where a key or time is null. Values are those of the store's
    serde, or *as_bytes* as they are kept.

    Raises:
        StoreClosedError: The store is closed.
        SerializationError: A value is not the serde's.
    """
    count = len(keys)
    asked = np.flatnonzero(
        keys.is_valid().to_numpy(zero_copy_only=False)
        & times_ms.is_valid().to_numpy(zero_copy_only=False)
    )
    if len(asked) < count:
        keys, times_ms = keys.take(pa.array(asked)), times_ms.take(pa.array(asked))
    below: Any = store_of_bytes(store)
    answers = _Answers(len(asked))
    if isinstance(below, EngineVersionedStore | CommittedVersions):
        with below.view() as view:
            _ask_view(view, keys.dictionary_encode(), times_ms.to_numpy(), answers)
    else:
        records = below.get_many(keys, times_ms)
        hits = np.flatnonzero([record is not None for record in records])
        versions = _Versions.of_records([record for record in records if record is not None])
        answers.add(hits, np.arange(len(hits)), versions)
    serde = raw if as_bytes else serde_or_raw(store.specification.value)
    return answers.found(asked, count, serde.decode_array)


def _ask_view(
    view: VersionedView, encoded: pa.DictionaryArray, times: Numbers, answers: _Answers
) -> None:
    """Answer each of the *encoded* keys at its time."""
    # Keys in their order, which is that of their rows: engines find neighbours together.
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    keys: list[bytes] = encoded.dictionary.take(pa.array(order)).to_pylist()
    codes: Numbers = np.argsort(order)[encoded.indices.to_numpy()]
    questions = np.arange(len(codes))
    if view.pending:
        is_pending = np.array([key in view.pending for key in keys], np.bool_)[codes]
        _ask_pending(view, keys, codes, times, np.flatnonzero(is_pending), answers)
        questions = np.flatnonzero(~is_pending)
    rows = view.latest_rows(keys)
    are_there = np.array([row is not None for row in rows], np.bool_)
    headers, values = split_headers(pa.array([row for row in rows if row is not None], _LARGE))
    starts = (headers & np.uint64(DELETED - 1)).astype(np.int64)
    places = np.where(are_there, np.cumsum(are_there) - 1, _NOWHERE)[codes[questions]]
    # A key without a latest row has no others; its questions stay without an answer.
    questions, places = questions[places >= 0], places[places >= 0]
    is_latest = times[questions] >= starts[places]
    live = headers < np.uint64(DELETED)
    latest = np.where(live[places], places, _NOWHERE)[is_latest]
    ends = pa.nulls(len(starts), _TIME)
    answers.add(questions[is_latest], latest, _Versions(values, starts, ends))
    rest = questions[~is_latest & (times[questions] >= view.horizon_ms)]
    if len(rest):
        _ask_history(view, keys, codes, times, rest, answers)


def _ask_pending(
    view: VersionedView,
    keys: list[bytes],
    codes: Numbers,
    times: Numbers,
    questions: Numbers,
    answers: _Answers,
) -> None:
    """Answer *questions* about keys with uncommitted versions, one by one."""
    asked = zip(codes[questions].tolist(), times[questions].tolist(), strict=True)
    records = [view.get(keys[code], time_ms) for code, time_ms in asked]
    hits = np.array([record is not None for record in records], np.bool_)
    versions = _Versions.of_records([record for record in records if record is not None])
    answers.add(questions[hits], np.arange(hits.sum()), versions)


def _ask_history(
    view: VersionedView,
    keys: list[bytes],
    codes: Numbers,
    times: Numbers,
    questions: Numbers,
    answers: _Answers,
) -> None:
    """Answer *questions* that come before the latest version of their key."""
    questions = questions[_by_key_and_time(codes[questions], times[questions])]
    asked = times[questions]
    rows: list[bytes] = []
    starts: list[int] = []
    places: list[int] = []
    first = AscendingSeeks(view.reader, END).first
    place, of_code, since = _NOWHERE, _NOWHERE, 0
    prefix = stop = b""
    for code, time_ms in zip(codes[questions].tolist(), asked.tolist(), strict=True):
        if code != of_code:
            begin, stop = history_bounds(keys[code])
            prefix = begin[:-_TERMINATOR_BYTES]
            of_code = code
        elif time_ms >= since:  # times descend, so it is before the end of the same version
            places.append(place)
            continue
        found = first(prefix + (MAX_TIME_MS - time_ms).to_bytes(SUFFIX_BYTES), stop)
        if found is None:
            place, since = _NOWHERE, 0
        else:
            place, since = len(rows), start_of(found[0])
            rows.append(found[1])
            starts.append(since)
        places.append(place)
    headers, values = split_headers(pa.array(rows, _LARGE))
    # A deletion's header is above every time, and so no end; a marker's end is its start.
    ends = np.append(
        np.where(headers < np.uint64(DELETED), headers, np.uint64(0)).astype(np.int64), 0
    )
    at = np.array(places)
    at[asked >= ends[at]] = _NOWHERE
    answers.add(
        questions, at, _Versions(values, np.array(starts, np.int64), pa.array(ends[:-1], _TIME))
    )


def _by_key_and_time(codes: Numbers, times: Numbers) -> Numbers:
    """Return an order in which keys ascend, and the times of each descend, as history rows do."""
    highest = int(times.max())
    span = highest - int(times.min()) + 1
    if span < MAX_TIME_MS // (int(codes.max()) + 1):  # one number says both
        return np.argsort(codes * span + (highest - times))
    return np.lexsort((-times, codes))
