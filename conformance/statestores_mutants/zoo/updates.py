"""Stores that merge updates of many keys with something else, or in another way."""

from typing import Any

from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.timestamped.store import EngineTimestampedKeyValueStore
from statestores.spi.stores.merging import Merge
from statestores.spi.stores.store import Values
from statestores.spi.values import as_list
from statestores_mutants.registry import mutant


@mutant("KVS-19", "KVS-24")
class UpdatesLookAtTheCommitted(EngineKeyValueStore):
    """Updates of many keys are merged with what was committed, whatever is pending.

    Imitates a merge operator of the engine, which knows no buffer.
    """

    def _merge_many(self, merge: Merge, keys: Values[bytes], values: Values[bytes | None]) -> None:
        pending = dict(self._rows)
        self._rows.clear()
        try:
            super()._merge_many(merge, keys, values)
        finally:
            merged = dict(self._rows)
            self._rows.clear()
            self._rows.update(pending | merged)


@mutant("KVS-19")
class LastRowOfAKeyCounts(EngineKeyValueStore):
    """Of the rows of one key in an update only the last is merged.

    Imitates columns that are deduplicated before they are merged.
    """

    def _merge_many(self, merge: Merge, keys: Values[bytes], values: Values[bytes | None]) -> None:
        key_list, value_list = as_list("keys", keys), as_list("values", values)
        if len(key_list) == len(value_list) and {type(key) for key in key_list} <= {bytes}:
            last = {
                key: value
                for key, value in zip(key_list, value_list, strict=True)
                if value is not None
            }
            if {type(value) for value in value_list} <= {bytes, type(None)}:
                key_list, value_list = list(last), list(last.values())
        super()._merge_many(merge, key_list, value_list)


@mutant("KVS-20")
class NothingIsTheLeast(EngineKeyValueStore):
    """A row without a value is merged as an empty one.

    Imitates nulls of a column that are read as the zero of its type.
    """

    def _merge_many(self, merge: Merge, keys: Values[bytes], values: Values[bytes | None]) -> None:
        given = [b"" if value is None else value for value in as_list("values", values)]
        super()._merge_many(merge, keys, given)


@mutant("TKV-8")
class MergedValuesHaveTheTimeOfTheirRow(EngineTimestampedKeyValueStore):
    """A merged value has the timestamp of the last row, though the key had a higher one.

    Imitates KAFKA-8455's aggregates before they kept the highest timestamp.
    """

    def _merge_many(
        self,
        merge: Merge,
        keys: Values[bytes],
        values: Values[bytes | None],
        timestamps_ms: Values[int | None] | None,
    ) -> None:
        key_list: list[Any] = as_list("keys", keys)
        times = None if timestamps_ms is None else as_list("timestamps_ms", timestamps_ms)
        super()._merge_many(merge, key_list, values, times)
        for key, time_ms in zip(key_list, times or [], strict=False):
            found = self.get(key)
            if found is not None and time_ms is not None:
                self.put(key, found.value, time_ms)


@mutant("TKV-8", "KVS-21")
class FunctionsGetTheCommitted(EngineTimestampedKeyValueStore):
    """The function of an update is given what was committed, whatever is pending.

    Imitates an update that reads by the connection that others read by.
    """

    def update_many(self, keys: Values[bytes], function: Any) -> None:
        def given(key_list: list[bytes], found: list[Any]) -> Any:
            return function(key_list, self.read_only().get_many(key_list))

        super().update_many(keys, given if callable(function) else function)
