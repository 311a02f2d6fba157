"""Backends by name, found through the entry-point group ``statestores.backends``.

Nothing is imported until a backend is asked for, so a missing driver hurts only those who want it.
The built-in backends are registered in the same way as a stranger's.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from statestores.errors import (
    InvalidTypeError,
    MissingDriverError,
    StateStoreError,
    UnknownBackendError,
)
from statestores.spi.engine import Engine

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "statestores.backends"
"""The entry-point group: ``name = "module:EngineClass"``."""


def backend_names() -> list[str]:
    """Return the names of all *registered* backends, sorted; a driver may still be missing."""
    return sorted({entry.name for entry in _entries()})


def available_backends() -> dict[str, type[Engine] | StateStoreError]:
    """Return for each registered backend its engine class, or the error that loading it gives."""
    found: dict[str, type[Engine] | StateStoreError] = {}
    for name in backend_names():
        try:
            found[name] = load_backend(name)
        except StateStoreError as error:
            found[name] = error
    return found


def load_backend(name: str) -> type[Engine]:
    """Return the engine class of the backend *name*, or of ``module:Class``.

    Raises:
        InvalidTypeError: The name is not a ``str``.
        UnknownBackendError: No backend has the name, or what it names is not an `Engine`.
        MissingDriverError: The package that the backend drives is not installed.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a backend is named by a str, such as 'rocksdb', got {name!r}")
    loaded = _loaded.get(name)
    if loaded is None:
        loaded = _loaded[name] = _load(_entry(name), name)
    return loaded


def load_recorded_backend(name: str, file: Path) -> type[Engine]:
    """Return the engine class of the backend *name*, which the *file* of a store names.

    Whoever can write the file must not choose what this process imports, so ``module:Class`` is
    taken only when the program itself has named it before, to `load_backend` (LAY-26).

    Raises:
        UnknownBackendError: No installed package registers the name, nor has the program named it.
        MissingDriverError: The package that the backend drives is not installed.
    """
    if name not in _loaded and name not in backend_names():
        known = ", ".join(backend_names()) or "none; is statestores installed?"
        raise UnknownBackendError(
            f"{str(file)!r} names the backend {name!r}, which no installed package registers, and "
            f"what a file names is not imported; known: {known}; if it is damaged, put the name "
            f"right, and if you trust it, open the store with backend={name!r} (on the command "
            f"line: statestores --trust-backend {name} ...)"
        )
    return load_backend(name)


_loaded: dict[str, type[Engine]] = {}
"""By name, since looking for an entry point reads what every installed package says about itself,
and a process may open hundreds of stores. An error is not kept: what was missing may be
installed."""


def _load(entry: "EntryPoint", name: str) -> type[Engine]:
    """Import the engine class that *entry* names, which registers the backend *name*."""
    try:
        loaded = entry.load()
    except ModuleNotFoundError as error:
        # Only a *foreign* module that is missing is a missing driver: a plugin that is itself
        # absent, or imports a name that does not exist, has another cause.
        own = entry.module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] == own:
            raise UnknownBackendError(
                f"the backend {name!r} names {entry.value!r}, which cannot be imported: {error}"
            ) from error
        raise MissingDriverError(
            f"the backend {name!r} needs the package {error.name!r}, which is not installed; "
            f"try: pip install 'statestores[{name}]'"
        ) from error
    except AttributeError as error:
        raise UnknownBackendError(
            f"the backend {name!r} names {entry.value!r}, which does not exist"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Engine)):
        raise UnknownBackendError(f"{entry.value!r} of the backend {name!r} is not an Engine class")
    return loaded


def _entries() -> "EntryPoints":
    """Return all that is registered."""
    # It took a third of the time of importing statestores, mostly for parsing e-mail.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)


def _entry(name: str) -> "EntryPoint":
    """Return the entry point of *name*, or one made from ``module:Class``."""
    from importlib.metadata import EntryPoint  # noqa: PLC0415  # as above

    found = next(iter(_entries().select(name=name)), None)
    if found is not None:
        return found
    module, colon, attribute = name.partition(":")
    if colon and module and attribute:
        return EntryPoint(name=name, value=name, group=GROUP)
    known = ", ".join(backend_names()) or "none; is statestores installed?"
    raise UnknownBackendError(f"no backend is registered as {name!r}; known: {known}")
