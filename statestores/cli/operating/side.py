"""One side of a comparison: a store, a partition or a snapshot, perhaps at an earlier offset."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import islice
from typing import Any, Self

import pyarrow as pa

from statestores.arrow.schemas import row_schema
from statestores.cli.arguments import parse_backend_options
from statestores.cli.store_views import StoreViews, views_of
from statestores.errors import InvalidArgumentError
from statestores.reading.views import Content, LogView, View
from statestores.spi.specification import StoreSpecification
from statestores.verification.content import Row, differences, place_of, visible

_ROWS_AT_ONCE = 4_096
"""Rows of a batch that is made of several partitions."""


class Side:
    """The rows of all partitions of one side, frozen when it was opened."""

    def __init__(self, contents: Sequence[Content], numbers: Sequence[int | None]) -> None:
        """Use `open`."""
        self._contents = contents
        self._numbers = numbers

    @classmethod
    @contextmanager
    def open(
        cls, path: str, store: str | None, offset: int | None, options: list[str] | None
    ) -> Iterator[Self]:
        """Open what lies at *path*, after the change with *offset* if that is given.

        Raises:
            InvalidArgumentError: An offset is asked of several partitions, or of something
                without a changelog; or nothing there has rows.
            StateStoreError: It cannot be read.
        """
        views = views_of(path, store, parse_backend_options(options))
        with ExitStack() as opened:
            found = opened.enter_context(views.open_all())
            if offset is not None:
                _rewind(path, found, offset)
            contents = [opened.enter_context(view.content()) for view in found]
            yield cls(contents, _numbers(views))

    @property
    def specification(self) -> StoreSpecification[Any, Any]:
        """What the store is."""
        return self._contents[0].specification

    @property
    def number(self) -> int | None:
        """The number of the partition, if there is one, and it has a number."""
        return self._numbers[0] if len(self._numbers) == 1 else None

    def pairs(self, other: "Side") -> list[tuple["Side", "Side", int | None]]:
        """Return what is compared with each other, and of which partition it is.

        Sides with as many partitions are compared partition by partition. Others as a whole; then
        it is of none.
        """
        mine, theirs = self.partitions(), other.partitions()
        if len(mine) != len(theirs):
            return [(self, other, None)]
        return [
            (one, another, another.number if one.number is None else one.number)
            for one, another in zip(mine, theirs, strict=True)
        ]

    def partitions(self) -> list["Side"]:
        """Return each partition on its own."""
        pairs = zip(self._contents, self._numbers, strict=True)
        return [Side([content], [number]) for content, number in pairs]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all partitions in key order, once; deletions are not there."""
        if len(self._contents) == 1:
            yield from visible(self._contents[0].batches)
            return
        streams = [_rows(visible(content.batches)) for content in self._contents]
        schema = row_schema(self.specification.kind)
        rows = merge(*streams, key=place_of)
        while found := list(islice(rows, _ROWS_AT_ONCE)):
            yield pa.RecordBatch.from_pylist(found, schema=schema)


def side_differences(one: Side, other: Side) -> Iterator[tuple[Row | None, Row | None, int | None]]:
    """Yield the rows that only one side has, or that differ, and their partition."""
    for mine, theirs, number in one.pairs(other):
        for here, there in differences(mine.rows(), theirs.rows()):
            yield here, there, number


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield from batch.slice(start, _ROWS_AT_ONCE).to_pylist()


def _numbers(views: StoreViews) -> list[int | None]:
    return [views.partition_number(index) for index in range(views.number_of_partitions)]


def _rewind(path: str, views: Sequence[View], offset: int) -> None:
    """Have the one view read the content after the change with *offset*."""
    if len(views) != 1:
        raise InvalidArgumentError(
            f"{path!r} has {len(views)} partitions, and an offset is one of a single partition; "
            f"give one, as {path.rstrip('/')}/0"
        )
    (view,) = views
    if not isinstance(view, LogView):
        raise InvalidArgumentError(
            f"{path!r} is read without a changelog, so it has no earlier offsets; leave the "
            "offset out"
        )
    view.stop_at(offset + 1)
