"""Opening the store of one partition: a backend, an engine, and the store that it holds.

A partition's directory holds ``engine/``, the live engine's own files, and ``engine.json``, which
names the backend, so that a reader who knows only the path can open it (LAY-10).
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, overload

from statestores.engine_creation import ENGINE_DIRECTORY, create_engine, forget_creation, has_files
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.failpoints import reach
from statestores.files.durable_json import (
    ENGINE_FILE,
    ROOT_FILE,
    check_format,
    read_fields,
    write_json,
)
from statestores.files.local_path import local_path
from statestores.files.presence import look_for
from statestores.registry import load_backend, load_recorded_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import check_specification
from statestores.semantics.every_kind.deferring_engine import DeferringEngine
from statestores.semantics.every_kind.self_description import read_description
from statestores.semantics.every_kind.store_options import StoreOptions, split_options
from statestores.semantics.opening import AnyEngineStore
from statestores.semantics.rows.layout import FORMAT_ROW
from statestores.serdes import specification_from_description, typed
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.session_specification import Session
from statestores.spi.specification import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
)
from statestores.spi.stores.key_value import KeyValueStore
from statestores.spi.stores.session import SessionStore
from statestores.spi.stores.timestamped_key_value import TimestampedKeyValueStore
from statestores.spi.stores.versioned import VersionedStore
from statestores.spi.stores.window import WindowStore
from statestores.spi.window_specification import Window

K = TypeVar("K")
V = TypeVar("V")

BytesStore: TypeAlias = AnyEngineStore

AnyStore: TypeAlias = (
    KeyValueStore[Any, Any]
    | TimestampedKeyValueStore[Any, Any]
    | VersionedStore[Any, Any]
    | WindowStore[Any, Any]
    | SessionStore[Any, Any]
)
"""A store of any kind, with keys and values of any type."""

DEFAULT_BACKEND = "rocksdb"
"""The backend of a new store when none is named: the one for most states and machines."""


_FORMAT = 1


@overload
def open_store(
    path: str | PathLike[str],
    specification: TimestampedKeyValue[K, V],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> TimestampedKeyValueStore[K, V]: ...
@overload
def open_store(
    path: str | PathLike[str],
    specification: KeyValue[K, V],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> KeyValueStore[K, V]: ...
@overload
def open_store(
    path: str | PathLike[str],
    specification: Versioned[K, V],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> VersionedStore[K, V]: ...
@overload
def open_store(
    path: str | PathLike[str],
    specification: Window[K, V],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> WindowStore[K, V]: ...
@overload
def open_store(
    path: str | PathLike[str],
    specification: Session[K, V],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> SessionStore[K, V]: ...
@overload
def open_store(
    path: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    *,
    backend: str | None = ...,
    options: Mapping[str, object] | None = ...,
    durability: Durability = ...,
) -> AnyStore: ...
def open_store(
    path: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
) -> AnyStore:
    """Open the store that *specification* describes in the directory *path*, or create it there.

    The store takes keys and values of the specification's serdes, and bytes where it names none.

    Args:
        path: The directory of one partition of the store; created when it is missing.
        specification: What the store is. It is written down and checked at each opening.
        backend: The backend's name, or ``module:Class``. By default the one that the directory
            was created with, and `DEFAULT_BACKEND` for a new one.
        options: The backend's own options, see its page in the documentation; and those of every
            store: ``read_cache_bytes`` and ``memory_budget`` (docs/memory.md).
        durability: What each commit survives.

    Raises:
        InvalidTypeError, InvalidArgumentError: An argument cannot be one.
        UnknownBackendError, MissingDriverError, InvalidOptionError: The backend cannot be used.
        StoreLockedError: The store is open elsewhere; the message says where.
        StoreMismatchError: The directory holds another store, or another backend's, or is a state
            root or one of its stores, whose partitions `open_logged_store` opens.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    store = open_bytes_store(
        path, specification, backend=backend, options=options, durability=durability
    )
    return typed_store(store, specification)


def open_bytes_store(
    path: str | PathLike[str],
    specification: StoreSpecification[Any, Any],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    restorable: bool = False,
    deferring: bool = False,
) -> BytesStore:
    """Open the same as `open_store`, without the serdes: keys and values are bytes.

    With *restorable* the caller restores what the store lacks: an engine whose files are gone is
    then begun anew; otherwise it is an error. With *deferring* the engine gets what a commit brings
    through a journal some time later (LGS-15).
    """
    check_specification(specification)
    chosen, of_engine = split_options(options)
    directory = local_path(path)
    engine, known = _open_engine(directory, backend, of_engine, restorable=restorable)
    if deferring:
        engine = DeferringEngine(engine)
    with _telling(directory):
        store = _open_on(engine, specification, durability, chosen)
        store.opened_at = directory
    if engine.capabilities.persistent and (known is None or _is_unnamed(directory)):
        try:
            reach("store.engine-created")
            # After the store's description, which is on disk: see `_check_content`.
            name = backend or known or DEFAULT_BACKEND
            write_json(directory / ENGINE_FILE, {"format": _FORMAT, "backend": name})
            forget_creation(directory)
        except BaseException:
            store.close()
            raise
    return store


def open_existing(
    path: str | PathLike[str],
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    durability: Durability = Durability.POWER_LOSS,
    decoded: bool = True,
) -> AnyStore:
    """Open the store in the directory *path* as it describes itself; nothing is created.

    With ``decoded=False`` keys and values are bytes, whatever serdes the store names. *backend* is
    needed only where the store names ``module:Class`` rather than a registered backend: what is on
    disk does not decide what is imported.

    Raises:
        StoreNotFoundError: There is no store.
        UnknownBackendError: The store names a backend that is not registered.
        StoreMismatchError: It names a backend other than *backend*.
        StoreLockedError, StoreCorruptedError, UnsupportedFormatError, StorageError: As in
            `open_store`.
    """
    directory = local_path(path)
    chosen, of_engine = split_options(options)
    if backend_of(directory) is None:
        raise StoreNotFoundError(f"there is no store in {str(directory)!r}; check the path")
    engine, _ = _open_engine(directory, backend, of_engine, restorable=False)
    with _telling(directory):
        try:
            specification = _stored_specification(engine, directory)
        except BaseException:
            engine.close()
            raise
        store = _open_on(engine, specification, durability, chosen)
        store.opened_at = directory
    return typed_store(store, specification) if decoded else store


def _open_on(
    engine: Engine,
    specification: StoreSpecification[Any, Any],
    durability: Durability,
    options: StoreOptions,
) -> BytesStore:
    """Open the store in *engine* with the choices made about it."""
    return open_on_engine(
        engine,
        specification,
        durability=durability,
        read_cache_bytes=options.read_cache_bytes,
        memory_budget=options.memory_budget,
    )


def typed_store(store: BytesStore, specification: StoreSpecification[Any, Any]) -> AnyStore:
    """Return *store* behind the serdes of *specification*."""
    # `open_on_engine` returns the kind that the specification names, which no type expresses here.
    opened: AnyStore = typed(cast("Any", store), cast("Any", specification))
    return opened


def backend_of(path: str | PathLike[str]) -> str | None:
    """Return the backend of the store in the directory *path*; ``None`` when there is none.

    Raises:
        StoreCorruptedError, UnsupportedFormatError: ``engine.json`` cannot be read.
    """
    file = local_path(path) / ENGINE_FILE
    fields = read_fields(file)
    if fields is None:
        return None
    check_format(fields, file, _FORMAT)
    return fields.text("backend")


def _stored_specification(engine: Engine, directory: Path) -> StoreSpecification[Any, Any]:
    """Return what the store in *engine* says it is."""
    description = read_description(engine)
    if description is None:
        raise StoreNotFoundError(
            f"the engine in {str(directory)!r} is empty: no store was created in it"
        )
    try:
        return specification_from_description(description)
    except (InvalidArgumentError, InvalidTypeError) as error:
        raise StoreCorruptedError(
            f"the stored specification describes no store, or one of a later release: {error}"
        ) from error


@contextmanager
def _telling(directory: Path) -> Iterator[None]:
    """Name *directory* in what the block raises about the rows stored there.

    The layers below know an engine and not where it lies.
    """
    try:
        yield
    except (StoreCorruptedError, StoreMismatchError, UnsupportedFormatError) as error:
        if str(directory) in str(error):
            raise
        raise type(error)(f"{error}; the store is in {str(directory)!r}") from error


def _open_engine(
    directory: Path,
    backend: str | None,
    options: Mapping[str, object] | None,
    *,
    restorable: bool,
) -> tuple[Engine, str | None]:
    """Open the engine in *directory*; return it, and the backend that is noted there."""
    if backend is not None and not isinstance(backend, str):
        raise InvalidTypeError(
            f"a backend is given by its name, such as 'sqlite', or by 'module:Class', got "
            f"{backend!r}"
        )
    known = backend_of(directory)
    if known is None:
        _refuse_state_root(directory)
    name = backend or known or DEFAULT_BACKEND
    if known is not None and name != known:
        raise _of_another(directory, known, name, restorable=restorable)
    engine_class = (
        load_recorded_backend(name, directory / ENGINE_FILE)
        if backend is None and known is not None
        else load_backend(name)
    )
    path = directory / ENGINE_DIRECTORY
    expected = None if restorable else known
    if expected is not None and engine_class.capabilities.persistent:
        about = look_for(path)
        if about is None or not stat.S_ISDIR(about.st_mode):
            raise _gone(directory, expected)
    if known is not None and not engine_class.capabilities.persistent and has_files(path):
        raise StoreCorruptedError(
            f"{str(directory / ENGINE_FILE)!r} names the backend {known!r}, which keeps nothing on "
            "disk, so it was damaged or edited; name the backend that wrote the engine again"
        )
    if known is None and engine_class.capabilities.persistent:
        engine = create_engine(engine_class, directory, name, options)
    else:
        engine = engine_class.open(os.fspath(path), options)  # an engine takes text
    if expected is not None:
        try:
            _check_content(engine, directory, expected)
        except BaseException:
            engine.close()
            raise
    return engine, known


def _is_unnamed(directory: Path) -> bool:
    """Whether a clean-up has removed an engine, with its name, just before this one was begun."""
    return look_for(directory / ENGINE_FILE) is None


def _of_another(directory: Path, known: str, name: str, *, restorable: bool) -> StoreMismatchError:
    """Return the error for an engine of *known* that was to be opened by *name*."""
    advice = "export it and import it into a new directory"
    if restorable:
        advice = (
            f"move {ENGINE_FILE!r} and {ENGINE_DIRECTORY!r} away from there, and the next opening "
            "makes the engine anew from its changelog and snapshots, as `statestores restore` does"
        )
    return StoreMismatchError(
        f"the store in {str(directory)!r} was written by the backend {known!r}, not {name!r}; to "
        f"change the backend, {advice}"
    )


def _check_content(engine: Engine, directory: Path, known: str) -> None:
    """Raise when the engine that ``engine.json`` describes is empty (LAY-23).

    The file is written once the store's description is in the engine, and on disk. So an engine
    without a row has lost its files, and the driver has made new ones: none of them can tell.
    """
    if not engine.capabilities.durable_commit or engine.get(FORMAT_ROW) is not None:
        return
    if engine.first(b"") is None:
        raise _gone(directory, known)


def _gone(directory: Path, known: str) -> StoreCorruptedError:
    """Return the error for an engine whose files are gone."""
    return StoreCorruptedError(
        f"{str(directory / ENGINE_FILE)!r} says that the backend {known!r} has a store in "
        f"{str(directory / ENGINE_DIRECTORY)!r}, and there is none: its files were removed or "
        "emptied; put them back, or remove both and restore the store from its changelog or a "
        "snapshot"
    )


def _refuse_state_root(directory: Path) -> None:
    """Accept a directory for a new engine that is neither a state root nor a store's in one.

    Raises:
        StoreMismatchError: It is.
    """
    for root, name in ((directory, None), (directory.parent, directory.name)):
        fields = read_fields(root / ROOT_FILE)
        if fields is None or (name is not None and name not in fields.mapping("stores")):
            continue
        what = "a state root" if name is None else f"the store {name!r} of a state root"
        raise StoreMismatchError(
            f"{str(directory)!r} is {what}, and no directory of one partition; open a partition "
            f"with open_logged_store({str(root)!r}, {name or '...'!r}, partition)"
        )
