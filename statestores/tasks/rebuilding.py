"""Opening a store whose local files are damaged: refuse, or set them aside and restore.

A damaged engine is never wiped unasked: without a word from the caller opening fails, and with
``on_corruption="rebuild"`` the damaged files are kept beside the new ones, for whoever must find
out what happened.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from statestores.arrow.file_access import reporting
from statestores.arrow.snapshots.choice import newest_valid_snapshot, passed_over
from statestores.changelog import changelog_partition
from statestores.engine_creation import ENGINE_DIRECTORY
from statestores.errors import (
    InvalidArgumentError,
    StoreCorruptedError,
    StoreNotFoundError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.files.durable_directory import make_durable
from statestores.logged_store.native_start import open_restorable
from statestores.migration import import_legacy_offsets
from statestores.opening import BytesStore, backend_of
from statestores.reading.locations import changelog_of
from statestores.spi.durability import Durability
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory

OnCorruption: TypeAlias = Literal["fail", "rebuild"]
"""What to do about a local store whose files are damaged."""

DAMAGED_PREFIX = f"{ENGINE_DIRECTORY}.damaged-"
"""The names under which damaged engines are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """A local store that was damaged and has been restored from scratch."""

    store: str
    """The store's name."""

    reason: str
    """What was found, in the words of the error."""

    kept_at: Path
    """Where the damaged files are now. Nobody removes them but `LocalDirectory.clean_up`."""


def check_on_corruption(on_corruption: object) -> None:
    """Accept a known policy.

    Raises:
        InvalidArgumentError: It is none.
    """
    if not isinstance(on_corruption, str) or on_corruption not in {"fail", "rebuild"}:
        raise InvalidArgumentError(f"on_corruption is 'fail' or 'rebuild', got {on_corruption!r}")


def open_local(
    directory: Path,
    specification: StoreSpecification[Any, Any],
    source: PartitionDirectory,
    *,
    backend: str | None,
    options: Mapping[str, object] | None,
    durability: Durability,
    on_corruption: OnCorruption,
) -> tuple[BytesStore, Rebuild | None]:
    """Open the store in *directory*, or a new one in place of a damaged one.

    *source* has the changelog and the snapshots from which it is restored. Legacy files
    of offsets beside an engine that was there before are moved into the store (MIG-3); beside a
    new one they speak of rows that are gone.

    Raises:
        StoreCorruptedError: The engine's files are damaged, and the policy is to fail, or what
            *source* holds is not enough to restore the store.
        StateStoreError: As `statestores.open_store` and `import_legacy_offsets`.
    """

    def opened() -> BytesStore:
        return open_restorable(
            directory,
            specification,
            source,
            backend=backend,
            options=options,
            durability=durability,
        )

    is_new = backend_of(directory) is None
    store, rebuild = open_or_rebuild(
        directory,
        specification.name,
        opened,
        missing=lambda: missing_for_restore(source, specification),
        on_corruption=on_corruption,
    )
    if rebuild is not None:
        return store, rebuild
    if not is_new:
        try:
            logged = changelog_partition(specification.name, int(source.path.name))
            import_legacy_offsets(store, directory, [logged])
        except BaseException:
            store.close()
            raise
    return store, None


def open_or_rebuild(
    directory: Path,
    name: str,
    opened: Callable[[], BytesStore],
    *,
    missing: Callable[[], str | None],
    on_corruption: OnCorruption,
) -> tuple[BytesStore, Rebuild | None]:
    """Return what *opened* gives, the store *name* in *directory*, if need be in place of damage.

    *missing* says in words what keeps the store from being restored from scratch.

    Raises:
        StoreCorruptedError: The engine's files are damaged, and the policy is to fail, or something
            is *missing*.
        StoreLockedError: Another process has rebuilt the store meanwhile, and has it open.
        StateStoreError: What *opened* raises.
    """
    try:
        return opened(), None
    except StoreCorruptedError as error:
        if on_corruption == "fail":
            raise
        lacking = missing()
        if lacking is not None:
            raise StoreCorruptedError(
                f"{name!r} is damaged and cannot be rebuilt, since {lacking}: {error}"
            ) from error
        kept_at = _set_aside(directory)
        rebuild = Rebuild(store=name, reason=str(error), kept_at=kept_at)
        return opened(), rebuild


def missing_for_restore(
    source: PartitionDirectory, specification: StoreSpecification[Any, Any]
) -> str | None:
    """Return in words what *source* lacks to restore the store from scratch; ``None`` if nothing.

    Raises:
        ChangelogCorruptedError, StorageError: The changelog cannot be read.
    """
    try:
        with changelog_of(source, specification) as log:
            first = log.first_offset
    except StoreNotFoundError:
        return "it has no changelog"
    choice = newest_valid_snapshot(source.snapshots)
    snapshot = choice.snapshot
    if first > 0 and (snapshot is None or snapshot.offset < first - 1):
        words = f"its changelog begins at offset {first}, and no valid snapshot has what was before"
        refused = choice.refused.values()
        return f"{words}; {passed_over(refused)}" if refused else words
    return None


def _set_aside(directory: Path) -> Path:
    """Rename the engine's directory, durably, and return its new name.

    Raises:
        StoreLockedError: Another process has rebuilt the store meanwhile, and has it open.
        StorageError: It cannot be renamed.
    """
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kept_at = directory / f"{DAMAGED_PREFIX}{now}"
    engine = directory / ENGINE_DIRECTORY
    with reporting("set aside", engine), ExitStack() as held:
        if engine.is_dir():
            held.callback(DirectoryLock.acquire(engine).release)
        engine.rename(kept_at)
        make_durable(directory)
    return kept_at
