"""Steps of a stream that are code of a user's own, with stores and timers, or on batches."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
from statestores.processing.batch_processor import BatchProcessor
from statestores.processing.dsl.record_steps import RecordSteps
from statestores.processing.operators.operator import Operator
from statestores.processing.operators.processors import Process
from statestores.processing.processor import (
    Processor,
    check_supply,
    declared_stores,
    one_of_each_name,
)
from statestores.spi import Serde, StoreSpecification

if TYPE_CHECKING:
    import pyarrow as pa

    from statestores.processing.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class ProcessorSteps(RecordSteps[K, V]):
    """What a stream does by processors and functions of batches."""

    def process(
        self,
        supply: Callable[[], Processor[K, V, K2, V2]],
        *,
        name: str | None = None,
        stores: Sequence[StoreSpecification[Any, Any]] = (),
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
    ) -> "Stream[K2, V2]":
        """Run a processor of one's own: a class, or what returns a new one for each task.

        Its stores are the class's attributes; *stores* adds to them where *supply* is no class.
        """
        node, chosen = self._process(supply, name, stores)
        return self._stream(node, key, value, chosen, is_rekeyed=True)

    def process_values(
        self,
        supply: Callable[[], Processor[K, V, K, V2]],
        *,
        name: str | None = None,
        stores: Sequence[StoreSpecification[Any, Any]] = (),
        value: Serde[V2] | None = None,
    ) -> "Stream[K, V2]":
        """Run a processor that leaves the keys as they are: nothing is repartitioned after it."""
        node, chosen = self._process(supply, name, stores)
        return self._stream(node, self._key, value, chosen, is_rekeyed=self._is_rekeyed)

    def batches(
        self,
        function: "Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table]",
        *,
        key: Serde[K2],
        value: Serde[V2],
        name: str | None = None,
    ) -> "Stream[K2, V2]":
        """Give on what *function* makes of batches of records.

        It is a function of records: where a batch ends must not matter, nor what was before. See
        `statestores.processing.BatchProcessor` for the columns.

        Raises:
            InvalidTopologyError: The serdes of the stream are not known.
        """
        if not callable(function):
            raise InvalidTypeError(
                f"batches needs a function of a pyarrow.RecordBatch, got {function!r}"
            )
        from statestores.processing.columns.batches import MapBatches  # noqa: PLC0415  # Arrow

        serdes = self._batch_serdes(key, value)
        node = self._step("batches", lambda: MapBatches(function, serdes), name)
        return self._stream(node, key, value, name, is_rekeyed=True)

    def process_batches(
        self,
        supply: Callable[[], BatchProcessor],
        *,
        key: Serde[K2],
        value: Serde[V2],
        name: str | None = None,
        stores: Sequence[StoreSpecification[Any, Any]] = (),
    ) -> "Stream[K2, V2]":
        """Run a batch processor of one's own: a class, or what returns a new one for each task.

        Raises:
            InvalidTopologyError: The serdes of the stream are not known.
        """
        from statestores.processing.columns.batches import ProcessBatches  # noqa: PLC0415  # Arrow

        serdes = self._batch_serdes(key, value)
        node, chosen = self._process(
            supply, name, stores, lambda found: ProcessBatches(supply, found, serdes)
        )
        return self._stream(node, key, value, chosen, is_rekeyed=True)

    def _batch_serdes(self, key: Serde[Any], value: Serde[Any]) -> Any:
        from statestores.processing.columns.batches import BatchSerdes  # noqa: PLC0415  # Arrow

        if self._key is None or self._value is None:
            what = "keys" if self._key is None else "values"
            raise InvalidTopologyError(
                f"a batch has columns of known types, and the {what} of {self._origin!r} have no "
                "serde; say key= or value= in the step before"
            )
        return BatchSerdes(self._key, self._value, key, value)

    def _process(
        self,
        supply: Callable[[], Any],
        name: str | None,
        stores: Sequence[StoreSpecification[Any, Any]],
        make: Callable[[tuple[StoreSpecification[Any, Any], ...]], Operator] | None = None,
    ) -> tuple[str, str]:
        check_supply(supply, None if make is None else BatchProcessor)
        chosen = name or getattr(supply, "__name__", None)
        if chosen is None or chosen == "<lambda>":
            raise InvalidArgumentError(
                f"{supply!r} has no name for its timers and messages; give it one with name=..."
            )
        declared = [(f"stores[{place}]", store) for place, store in enumerate(stores)]
        if isinstance(supply, type):
            declared += [
                (f"its attribute {attribute!r}", store)
                for attribute, store in declared_stores(supply).items()
            ]
        found = one_of_each_name(chosen, declared)
        own = tuple(found.values())
        made = make or partial(Process, supply)
        node = self._step("process", lambda: made(own), chosen, stores=own, own_keys=tuple(found))
        return node, chosen
