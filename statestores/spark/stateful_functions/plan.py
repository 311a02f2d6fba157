"""A stateful operator as the driver has checked it, and as its tasks get it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    SerializationError,
    StoreMismatchError,
)
from statestores.files.lock_waiting import COMMIT_TIMEOUT_MS
from statestores.root_document import OPERATORS_DIRECTORY, Placement
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spark.given_root import GivenRoot
from statestores.spark.local_copy import CopyOptions
from statestores.spark.stateful_functions.output_place import OutputPlace
from statestores.spi.specification import StoreSpecification

DEFAULT_PARTITIONS = 4

CHANNEL_COLUMN = "topic"
"""The column that says which channel a row is for."""

By: TypeAlias = Literal["batches", "rows"]
"""What a function gets and emits."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class OpenStores(Mapping[str, Any]):
    """The stores of one partition, by name, while a function computes a micro-batch.

    They are written like any others, but not committed: that is done with the micro-batch.
    """

    def __init__(self, stores: Mapping[str, Any], partition: int, batch: int) -> None:
        """Give the open *stores* to the function."""
        self._stores = dict(stores)
        self.dropped: Counter[str] = Counter()
        """How many records the function has dropped, by reason: the driver adds it up."""
        self._partition = partition
        self._batch = batch

    def __getitem__(self, name: str) -> Any:
        """Return the store *name*, with keys and values of its specification's serdes."""
        try:
            return self._stores[name]
        except KeyError:
            raise KeyError(
                f"the function has no store {name!r}; stores= names: {', '.join(self._stores)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._stores)

    def __len__(self) -> int:
        """Return how many stores there are."""
        return len(self._stores)

    @property
    def partition(self) -> int:
        """The partition, the same one in every store."""
        return self._partition

    @property
    def batch(self) -> int:
        """The number of the micro-batch in its query."""
        return self._batch


StatefulFunction: TypeAlias = Callable[[Iterator[Any], OpenStores], Iterable[Any] | None]
"""Takes the rows of one partition in one micro-batch, as batches or rows, and emits such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulPlan:
    """A stateful operator. Made to be sent to tasks."""

    place: GivenRoot
    """The state root."""

    name: str
    """The operator, of which there may be several in a state root."""

    specifications: tuple[StoreSpecification[Any, Any], ...]
    """The stores; their keys have one serde, and their partitioner is one."""

    partitions: int
    """How many partitions each of them has."""

    key: str
    """The column of keys."""

    function: StatefulFunction
    """What the user computes."""

    by: By
    """Whether it takes batches or rows."""

    schema: pa.Schema
    """What it emits."""

    copies: CopyOptions
    """Where the copies of the stores lie."""

    commit_timeout_ms: int = COMMIT_TIMEOUT_MS
    """How long a micro-batch waits for the locks of its stores."""

    places_keys: bool = True
    """Whether the stores' partitioner says where keys go, which is checked. Else whatever a task
    writes is in its own partition."""

    tables: tuple[StoreSpecification[Any, Any], ...] = ()
    """Stores of one partition that every task reads, and none writes."""

    channels: tuple[str, ...] = ()
    """What its rows may be for, if they are to be read apart: each emitted batch is of one channel,
    which its column `CHANNEL_COLUMN` names."""

    @property
    def root(self) -> Path:
        """The state root's directory.

        Raises:
            InvalidOptionError: It is in an object store.
        """
        return self.place.require_directory()

    @property
    def directory(self) -> Path:
        """Where the operator keeps its last micro-batch, in a directory."""
        return self.root / OPERATORS_DIRECTORY / self.name

    def outputs(self, write_id: str) -> OutputPlace:
        """Return where the tasks of the micro-batch *write_id* put what they emit."""
        own = f"{OPERATORS_DIRECTORY}/{self.name}"
        if self.place.directory is None:
            own = f"{own}/outputs"
        return OutputPlace(self.place, f"{own}/{write_id}")


def resolve_stores(
    root: GivenRoot, stores: Sequence[StoreSpecification[Any, Any] | str], partitions: int | None
) -> tuple[tuple[StoreSpecification[Any, Any], ...], int]:
    """Return what *stores* are, or will be, and their number of partitions.

    Names must be in the state root *root*.

    Raises:
        InvalidTypeError, InvalidArgumentError: There is no store, or one twice; or the stores do
            not have one key serde and one partitioner.
        StoreNotFoundError: A name is unknown; the message lists those that there are.
        StoreMismatchError: The stores do not have one number of partitions.
    """
    names = _names_of(stores)
    has_names = any(isinstance(each, str) for each in stores)
    present = {}
    state = root.open() if has_names else root.find()
    if state is not None:
        present = state.stores
        for each in stores:
            if isinstance(each, str):
                state.store(each)
    given = tuple(present[each].specification if isinstance(each, str) else each for each in stores)
    _check_alike(given)
    counts = {name: present[name].partitions for name in names if name in present}
    if len({*counts.values(), *([] if partitions is None else [partitions])}) > 1:
        raise StoreMismatchError(
            f"the stores of one function have one number of partitions: those that there are have "
            f"{counts}, and partitions is {partitions}; leave partitions out, and reshard stores "
            "that differ"
        )
    if partitions is None:
        partitions = next(iter(counts.values()), DEFAULT_PARTITIONS)
    return given, partitions


def add_stores(
    root: GivenRoot, specifications: Sequence[StoreSpecification[Any, Any]], partitions: int
) -> None:
    """Add the stores that are not there yet to the state root *root*, making it if need be.

    Raises:
        InvalidTypeError, InvalidArgumentError: The number of partitions cannot be one.
        StoreMismatchError: A store is there and is another one.
    """
    state = root.create()
    for specification in specifications:
        is_new = specification.name not in state.stores
        placement = Placement.PARTITIONER if is_new else None  # its tasks see to that
        state.add_store(specification, partitions=partitions, placement=placement)


def _names_of(stores: object) -> list[str]:
    """Return the names of the stores that a user has given.

    Raises:
        InvalidTypeError, InvalidArgumentError: They cannot be stores, or one is there twice.
    """
    if isinstance(stores, str | StoreSpecification) or not isinstance(stores, Sequence):
        raise InvalidTypeError(f"stores must be a list of specifications or names, got {stores!r}")
    if not stores:
        raise InvalidArgumentError("stores is empty; a stateful function has at least one store")
    names: list[str] = []
    for each in stores:
        if not isinstance(each, str | StoreSpecification):
            raise InvalidTypeError(
                "a store is a specification, such as statestores.KeyValue(...), or a name, got "
                f"{each!r}"
            )
        names.append(each if isinstance(each, str) else each.name)
        if names.count(names[-1]) > 1:
            raise InvalidArgumentError(f"stores names {names[-1]!r} twice")
    return names


def _check_alike(given: Sequence[StoreSpecification[Any, Any]]) -> None:
    """Accept stores that put a key into the same partition.

    Raises:
        InvalidArgumentError: They do not.
    """
    first = given[0]
    for each in given[1:]:
        for what, one, other in (
            ("key serde", serde_or_raw(first.key).name, serde_or_raw(each.key).name),
            ("partitioner", first.partitioner, each.partitioner),
        ):
            if one != other:
                raise InvalidArgumentError(
                    f"the stores {first.name!r} and {each.name!r} have the {what}s {one!r} and "
                    f"{other!r}, so a key's partition is not the same one; give them the same"
                )


def operator_name(name: str | None, specifications: Sequence[StoreSpecification[Any, Any]]) -> str:
    """Return the operator's name, by default that of its first store.

    Raises:
        InvalidArgumentError: It cannot be one.
    """
    chosen = specifications[0].name if name is None else name
    if not _NAME.fullmatch(chosen):
        raise InvalidArgumentError(
            f"the name of a stateful function has 1 to 64 letters, digits, '_' and '-', got "
            f"{chosen!r}; give one with name="
        )
    return chosen


def check_key_column(
    column: str, kind: pa.DataType, specification: StoreSpecification[Any, Any]
) -> None:
    """Accept a column whose type is that of the keys of a store.

    Raises:
        InvalidTypeError: It is another one; the message names the column and both types.
    """
    serde = serde_or_raw(specification.key)
    try:
        serde.encode_array(pa.array([], kind))
    except SerializationError as error:
        raise InvalidTypeError(
            f"the column {column!r} is {kind}, and the keys of the store {specification.name!r} "
            f"are {serde.arrow_type()} ({serde.name}); cast it, or give the store another key serde"
        ) from error
