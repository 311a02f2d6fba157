"""What is under test: a backend by name or import path, or a function that opens stores.

It is loaded only inside the child process: importing a third party's module may do anything.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

from statestores.errors import CapabilityNotSupportedError, StateStoreError, UnknownBackendError
from statestores.registry import load_backend
from statestores.spi import (
    Capabilities,
    Durability,
    Engine,
    KeyValue,
    Session,
    StateStore,
    StoreSpecification,
    TimestampedKeyValue,
    Versioned,
    Window,
)
from statestores_conformance.subjects.engines import OpenEngine

_LONGEST_SENTENCE = 600

VARIABLE = "STATESTORES_CONFORMANCE_SUBJECT"
"""Tells the child process what to test: JSON of the backend and its options."""

KINDS: tuple[StoreSpecification[Any, Any], ...] = (
    KeyValue("probe"),
    TimestampedKeyValue("probe", ttl_ms=1_000),
    Versioned("probe", history_retention_ms=0),
    Window("probe", retention_ms=1_000, window_size_ms=10),
    Session("probe", retention_ms=1_000),
)
"""A specification of each kind that a function at door two may open.

What has timestamps may expire: that is in the same chapter, and a store without it is not of the
kind."""

OpenStore: TypeAlias = Callable[..., StateStore]
"""A function from a directory and a specification to an open store; options are ``options=``."""


class BrokenSubjectError(Exception):
    """The backend was found, but could not do the first thing asked of it."""


@dataclass(frozen=True, slots=True)
class EngineSubject:
    """Door one: a class of engines."""

    name: str
    engine: type[Engine]
    open: OpenEngine


@dataclass(frozen=True, slots=True)
class StoreSubject:
    """Door two: a function from a directory and a specification to an open store."""

    name: str
    open: OpenStore


Subject = EngineSubject | StoreSubject


def requested() -> tuple[str, dict[str, object]]:
    """Return the backend and options that the parent process asks for."""
    request = json.loads(os.environ[VARIABLE])
    return request["backend"], request["options"]


def load_subject(backend: str, options: Mapping[str, object]) -> Subject:
    """Return what *backend* names.

    Raises:
        UnknownBackendError: Nothing can be found or imported under the name.
        MissingDriverError: The package that the backend drives is not installed.
    """
    function = _function(backend)
    if function is not None:
        opener = partial(function, options=dict(options)) if options else function
        return StoreSubject(backend, opener)
    try:
        engine = load_backend(backend)
    except StateStoreError:
        raise
    except Exception as error:
        raise UnknownBackendError(
            f"the backend {backend!r} cannot be imported: {sentence_of(error)}"
        ) from error
    return EngineSubject(
        backend, engine, partial(engine.open, options=dict(options)) if options else engine.open
    )


def _function(backend: str) -> OpenStore | None:
    """Return the function that *backend* names as ``module:function``, or ``None``."""
    module, colon, name = backend.partition(":")
    if not colon:
        return None
    try:
        found = getattr(import_module(module), name, None)
    except ModuleNotFoundError:
        return None  # the registry's error is better
    except Exception as error:
        raise UnknownBackendError(
            f"the backend {backend!r} cannot be imported: {sentence_of(error)}"
        ) from error
    if isinstance(found, type) or not callable(found):
        return None
    # Documented in docs/conformance.md; a function that takes other arguments fails at the probe.
    return cast("OpenStore", found)


def probe(subject: Subject) -> Capabilities:
    """Open *subject* once in a directory of its own, and return what it promises.

    Raises:
        BrokenSubjectError: It cannot be opened, asked or closed; the message names the step.
        MissingDriverError: The driver was found missing only when it was opened.
    """
    with tempfile.TemporaryDirectory(prefix="statestores-probe-") as directory:
        path = Path(directory) / "probe"
        if isinstance(subject, StoreSubject):
            return _probe_stores(subject, path)
        engine = _step("opening the engine", lambda: subject.open(path))
        if not isinstance(engine, Engine):
            raise BrokenSubjectError(f"opening the engine gave {engine!r}, expected an Engine")
        capabilities: object = _step("asking for capabilities", lambda: engine.capabilities)
        _step("closing the engine", engine.close)
        if not isinstance(capabilities, Capabilities):
            raise BrokenSubjectError(
                f"the engine's capabilities are {capabilities!r}, expected a Capabilities"
            )
        return capabilities


def _probe_stores(subject: StoreSubject, path: Path) -> Capabilities:
    """Open a store of the first kind that the function accepts."""
    for kind in KINDS:
        if opens(subject, kind):
            store = _step("opening a store", partial(subject.open, path, kind))
            persistent = _step("asking for persistence", partial(getattr, store, "persistent"))
            durable = persistent and _step(
                "committing", partial(commits_with, store, Durability.POWER_LOSS)
            )
            _step("closing the store", store.close)
            return Capabilities(persistent=persistent, durable_commit=durable)
    raise BrokenSubjectError("the function opens a store of no kind")


def commits_with(store: StateStore, durability: Durability) -> bool:
    """Return whether *store* gives a commit *durability*; what it does not promise, it refuses."""
    try:
        store.commit({}, durability=durability)
    except CapabilityNotSupportedError:
        return False
    return True


def opens(subject: StoreSubject, specification: Any) -> bool:
    """Return whether the function opens stores of the kind; it refuses with a sentence."""
    with tempfile.TemporaryDirectory(prefix="statestores-probe-") as directory:
        try:
            subject.open(Path(directory) / "probe", specification).close()
        except CapabilityNotSupportedError:
            return False
        except Exception as error:
            raise BrokenSubjectError(f"opening a store raised {sentence_of(error)}") from error
    return True


def _step(doing: str, act: Callable[[], Any]) -> Any:
    """Return what *act* returns; whatever third-party code raises becomes a sentence."""
    try:
        return act()
    except StateStoreError as error:
        if isinstance(error, ImportError):
            raise
        raise BrokenSubjectError(f"{doing} raised {sentence_of(error)}") from error
    except Exception as error:
        raise BrokenSubjectError(f"{doing} raised {sentence_of(error)}") from error


def sentence_of(error: BaseException) -> str:
    """Return class and message of *error* in one line."""
    return one_line(f"{type(error).__name__}: {error}")


def one_line(text: str) -> str:
    """Return *text* in one line, without what could control a terminal, and cut if it is long."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in " ".join(text.split())[:_LONGEST_SENTENCE]
    )
