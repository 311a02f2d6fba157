"""Which topology has made the changelogs of a task, noted in the task's own store (KFK-53).

The note in a state directory goes with it, and the changelogs stay: an instance with a directory of
its own would read them as what they are not. So the task's store, which is restored before the task
begins, has a row that describes the topology. It is written with the first changes of a commit,
since what has no rows can be misread by nobody.
"""

import json
from typing import TYPE_CHECKING, cast

from statestores.files.durable_json import check_format
from statestores.files.strict_json import Fields, parse_object
from statestores.kafka.identity import BEGIN_ANEW
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.processing.topology import Description, check_fits
from statestores.topology_note import description_in

if TYPE_CHECKING:
    from statestores.spi import KeyValueStore

_KEY = b"topology"
_FORMAT = 1
"""The version of the row: a reader of another one refuses the changelogs."""


class NotedTopology:
    """The row of one task."""

    def __init__(self, own: LoggedStore, description: Description) -> None:
        """Accept the topology of *description* for the task whose own store is *own*.

        A task without the row is one that is new, or of an earlier release.

        Raises:
            TopologyMismatchError: The changelogs are of another topology, or of an earlier form of
                this one, some of which would be lost or taken for something else.
            StoreCorruptedError, UnsupportedFormatError: The row cannot be read.
        """
        # A task's own store is one, of bytes.
        self._store = cast("KeyValueStore[bytes, bytes]", own.store)
        self._row = json.dumps(
            {"format": _FORMAT, "topology": description}, sort_keys=True, ensure_ascii=False
        ).encode()
        kept = self._store.get(_KEY)
        self._is_due = kept != self._row
        if kept is not None and self._is_due:
            topic, partition = own.changelog
            where = f"the topology that is noted in partition {partition} of {topic!r}"
            fields = Fields(parse_object(kept, where), where)
            check_format(fields, where, _FORMAT)
            what = (
                f"its changelogs in the cluster, by the note in partition {partition} of {topic!r}"
            )
            check_fits(description_in(fields), description, what, BEGIN_ANEW)

    def write(self) -> None:
        """Have the commit under way note the topology, if none has."""
        if self._is_due:
            self._store.put(_KEY, self._row)

    def has_committed(self) -> None:
        """Look whether the commit that has ended had it."""
        self._is_due = self._is_due and self._store.get(_KEY) != self._row
