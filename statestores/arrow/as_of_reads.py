"""Many keys of a versioned store, each at a time of its own, as columns."""

from typing import Any

import numpy as np
import pyarrow as pa

from statestores.arrow.as_of_index import Found
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.versioned import ReadOnlyVersionedStore

_TIME = pa.int64()


def find_as_of(
    store: ReadOnlyVersionedStore[Any, Any], keys: pa.Array, times_ms: pa.Array
) -> Found:
    """Return the version of each of the encoded *keys* that is valid at its time, inclusive.

    *times_ms* is int64, from 0. Null where a key or time is null.

    Raises:
        StoreClosedError: The store is closed.
        SerializationError: A value is not the serde's.
    """
    below: Any = store_of_bytes(store)
    asked = np.flatnonzero(
        keys.is_valid().to_numpy(zero_copy_only=False)
        & times_ms.is_valid().to_numpy(zero_copy_only=False)
    )
    places = pa.array(asked)
    found = below.get_many(keys.take(places), times_ms.take(places))
    rows = np.full(len(keys), -1)
    rows[asked] = np.arange(len(asked))
    order = pa.array(rows, mask=rows < 0)
    values = pa.array([record and record.value for record in found], pa.binary())
    starts = pa.array([record and record.valid_from_ms for record in found], _TIME)
    ends = pa.array([record and record.valid_to_ms for record in found], _TIME)
    decode = serde_or_raw(store.specification.value).decode_array
    return Found(decode(values.take(order)), starts.take(order), ends.take(order))
