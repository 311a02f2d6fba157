"""Reading one partition of a log in an object store, while others append, fold and delete."""

from collections.abc import Iterator
from typing import Self

from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import Frame
from statestores.changelog.range_reading import check_range
from statestores.errors import StoreClosedError, StoreMismatchError
from statestores.object_log.catching_up import catch_up
from statestores.object_log.driver import run
from statestores.object_log.frames import EntryRef, rebased
from statestores.object_log.names import Names
from statestores.object_log.object_segment import frames_of
from statestores.object_log.pieces import read_ahead, read_piece
from statestores.object_log.view import View
from statestores.spi.offsets import Position
from statestores.storage import ObjectStorage


class ObjectChangelogReader(ReadOnlyChangelog):
    """One partition's changelog. It changes nothing, and sees what was acknowledged before."""

    def __init__(self, storage: ObjectStorage, names: Names, partition: int, view: View) -> None:
        """Use `open`."""
        self._storage = storage
        self._names = names
        self._partition = partition
        self._view = view
        self._open = True
        self._overtaken_to = 0

    @classmethod
    def open(
        cls, storage: ObjectStorage, names: Names, partition: int, store_kind: str | None = None
    ) -> Self:
        """Open the changelog of *partition* for reading.

        Raises:
            StoreMismatchError: It is not one of a store of *store_kind*.
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """
        view = run(catch_up(names, (partition,), tails=True), storage)
        if store_kind is not None:
            check_kind(names, view, store_kind)
        return cls(storage, names, partition, view)

    @property
    def storage(self) -> ObjectStorage:
        """Where the log lies."""
        return self._storage

    @property
    def names(self) -> Names:
        """The names of the log's objects."""
        return self._names

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._partition

    @property
    def view(self) -> View:
        """What has been seen of the log; who goes on from it takes a copy."""
        return self._view

    @property
    def overtaken_to(self) -> int:
        """The offset to which what was read had been compacted by then; 0 where it had not been.

        Up to an end before it, what was read is no content that the store ever had: changes are
        missing that are void by later ones.
        """
        return self._overtaken_to

    @property
    def where(self) -> str:
        """The changelog, as messages show it."""
        return f"{self._names.url}/{self._names.store}, partition {self._partition}"

    @property
    def log_id(self) -> str:
        """The id that the log was given when it was made."""
        return self._view.checkpoint.log

    @property
    def store_kind(self) -> str:
        return self._view.checkpoint.store_kind

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def first_offset(self) -> int:
        self.check_open()
        return self._view.parts[self._partition].begin

    @property
    def end_offset(self) -> int:
        return self._refreshed().parts[self._partition].end

    @property
    def position(self) -> Position:
        return self._refreshed().parts[self._partition].position

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        start, stop = check_range(
            self.where, from_offset, to_offset, self.first_offset, self.end_offset
        )
        return self._frames(self._view, start, stop)

    def close(self) -> None:
        self._open = False

    def _refreshed(self) -> View:
        """Return the view as it is now."""
        self.check_open()
        steps = catch_up(self._names, (self._partition,), self._view, tails=True)
        self._view = run(steps, self._storage)
        return self._view

    def read_seen(self, start: int, stop: int) -> Iterator[Frame]:
        """Yield the frames of ``start <= offset < stop``, which `view` has, without looking again.

        Where they have been folded or compacted meanwhile, `view` is a later one afterwards.

        Raises:
            ChangelogCorruptedError, UnsupportedFormatError, StorageError: As `read`.
        """
        return self._frames(self._view, start, stop, follow=True)

    def _frames(
        self, view: View, start: int, stop: int, *, follow: bool = False
    ) -> Iterator[Frame]:
        """Yield the frames of ``start <= offset < stop``, which *view* has.

        With *follow*, a later view that has to be taken becomes `view`.
        """
        cursor, names = start, self._names
        self._note_compaction(view)
        ahead: dict[str, bytes] = {}
        while cursor < stop:
            self.check_open()
            piece = view.parts[self._partition].piece_at(cursor)
            if isinstance(piece, EntryRef) and piece.data is None and piece.name not in ahead:
                steps = read_ahead(names, view.parts[self._partition], cursor)
                ahead = run(steps, self._storage)
            if isinstance(piece, EntryRef) and piece.name in ahead:
                data = rebased(ahead.pop(piece.name), piece.base, piece.at_ms)
            else:
                before = view
                view, piece, data = run(
                    read_piece(names, self._partition, view, cursor), self._storage
                )
                if view is not before:
                    self._note_compaction(view)
                    if follow:
                        self._view = view
            shown = names.shown(piece.name)
            for frame in frames_of(piece, data, self.store_kind, shown, cursor):
                self.check_open()
                yield frame.within(cursor, stop)
                cursor = frame.last_offset + 1
                if cursor >= stop:
                    return

    def _note_compaction(self, view: View) -> None:
        """Note how far *view*, which is read, is compacted."""
        compacted_to = view.parts[self._partition].compacted_to
        self._overtaken_to = max(self._overtaken_to, compacted_to)

    def check_open(self) -> None:
        """Accept a changelog that is open.

        Raises:
            StoreClosedError: It is closed.
        """
        if not self._open:
            raise StoreClosedError(f"the changelog in {self.where!r} is closed; open it again")


def check_kind(names: Names, view: View, store_kind: str) -> None:
    """Accept the log of a store of *store_kind*.

    Raises:
        StoreMismatchError: It is one of another kind.
    """
    found = view.checkpoint.store_kind
    if found != store_kind:
        raise StoreMismatchError(
            f"the changelog {names.shown(names.store)} is that of a {found} store, and was opened "
            f"for a {store_kind} store"
        )
