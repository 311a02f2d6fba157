"""Joins of two tables where a field of the left row names the right one (KIP-213).

The left side subscribes at the partition of the right row, which keeps the subscriptions and
answers each with the row, and again whenever that changes. An answer counts only while the left row
is the one that asked: a hash of it goes along.

So the answer that would delete an inner join's result may not count any more when it comes. Until
one has counted, the left side owes a deletion: whatever its row asks for then is answered, also
where there is nothing to join with.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from statestores.processing.change import Change
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.tables import Lookup, MakeLookup
from statestores.processing.record import Record
from statestores.processing.serdes import Pieces, decoded, encoded, piece, time_bytes
from statestores.spi import Serde

_HASH_BYTES = 16


def row_hash(serde: Serde[Any], value: Any) -> bytes:
    """Return what tells one left row from another."""
    data = encoded(serde, value)
    return b"" if data is None else sha256(data).digest()[:_HASH_BYTES]


class Subscribe(Operator):
    """The left side: says at the right row's partition which left row wants it.

    Records go on with the foreign key's bytes as the key, so that they come to the right row's
    partition. Their value has pieces: the left key, the hash of the left row (nothing:
    unsubscribe), whether an answer is wanted even without a row, and whether there is a foreign
    key at all.
    """

    def __init__(
        self,
        foreign_key: Callable[[Any], Any],
        left_key: Serde[Any],
        left_value: Serde[Any],
        right_key: Serde[Any],
        *,
        versioned: bool,
        owed: str | None,
    ) -> None:
        """Take the foreign key of a left value by *foreign_key*.

        *owed* is the store of left keys whose result may have to be deleted; none in a left join.
        """
        self.foreign_key = foreign_key
        self.left_key, self.left_value, self.right_key = left_key, left_value, right_key
        self.versioned = versioned
        self.owed = owed

    def open(self, task: TaskServices) -> None:
        """Take the store of what is owed, and count what is dropped."""
        self._drop, self._fail_one, self._forgive = task.drop, task.fail_one, task.forgive
        self._owed = None if self.owed is None else task.store(self.owed)

    def receive(self, item: Change) -> None:
        """Leave the old right row if it is another, and subscribe to the new one."""
        if self.versioned and not item.is_latest:
            self._drop(self.name, "superseded", item)
            return
        if item.new is None and item.old is None:
            return
        old_key, new_key = self._keys(item)
        left_it = old_key is not None and old_key != new_key
        if self._owed is None:
            if left_it:
                self._say(old_key, item, None, answer=False)
            self._say(new_key, item, item.new, answer=True)
            return
        # Of an inner join, what leaves a right row has its result deleted, unless there is another.
        is_owed = left_it or (self._is_owed(item) and not self._is_asked_for(item))
        if left_it:
            self._say(old_key, item, None, answer=item.new is None)
            if item.new is None:
                return
        if new_key is not None:
            self._say(new_key, item, item.new, answer=is_owed)
            return
        if is_owed:
            self._say(None, item, item.new, answer=True)

    def _keys(self, item: Change) -> tuple[Any, Any]:
        """Return the foreign keys of what the row was and of what it is, if it has any.

        One that cannot be taken is none, where the policy is to go on (PRC-100).
        """
        old_key = new_key = None
        try:
            new_key = None if item.new is None else self.foreign_key(item.new)
            if item.new is not None and new_key is None and self._owed is not None:
                self._drop(self.name, "null-foreign-key", item)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            self._fail_one(self.name, error)
        try:
            old_key = None if item.old is None else self.foreign_key(item.old)
        except Exception as error:  # noqa: BLE001  # likewise
            self._forgive(error)
        return old_key, new_key

    def _is_owed(self, item: Change) -> bool:
        left_key = encoded(self.left_key, item.key) or b""
        return self._owed is not None and self._owed.get(left_key) is not None

    def _is_asked_for(self, item: Change) -> bool:
        """Return whether the answer that is on its way is to this very row.

        One that owes has asked as it came: an equal one that follows needs no second deletion.
        """
        if item.old is None:
            return False
        return row_hash(self.left_value, item.old) == row_hash(self.left_value, item.new)

    def _say(self, foreign_key: Any, item: Change, value: Any, *, answer: bool) -> None:
        left_key = encoded(self.left_key, item.key) or b""
        if answer and self._owed is not None:
            self._owed.put(left_key, b"")
        told = row_hash(self.left_value, value) if value is not None else None
        flags = piece(b"1" if answer else b"") + piece(b"" if foreign_key is None else b"1")
        content = piece(left_key) + piece(told) + flags
        # A row without a foreign key is answered where it would lie with an empty one.
        key = b"" if foreign_key is None else self.right_key.encode(foreign_key)
        self.forward(Record(key, content, item.time_ms, item.headers))


class Answer(Operator):
    """The right side's partition: keeps subscriptions, and answers them with the row."""

    def __init__(
        self, right: MakeLookup, right_key: Serde[Any], right_value: Serde[Any], store: str
    ) -> None:
        """Look rows up in *right*; subscriptions lie in the store of bytes *store*."""
        self.right = right
        self.right_key, self.right_value = right_key, right_value
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take lookup and store."""
        self._look: Lookup = self.right(task)
        self._subscriptions = task.store(self.store)

    def receive(self, item: Record[bytes, bytes]) -> None:
        """Keep or forget a subscription, and answer it."""
        pieces = Pieces(item.value)
        left_key, told, wanted = pieces.piece() or b"", pieces.piece(), pieces.piece()
        row = None
        if pieces.piece():
            name = piece(item.key) + left_key
            kept = None if told is None else time_bytes(item.time_ms) + told
            self._subscriptions.put(name, kept)
            row = self._look(self.right_key.decode(item.key))
        if told is None:
            row_value, answer = None, bool(wanted)
        else:
            row_value = None if row is None else row[0]
            answer = bool(wanted) or row is not None
        if answer:
            time_ms = max(item.time_ms, (row[1] or 0) if row is not None else 0)
            self.forward(self.answer(left_key, told, row_value, time_ms, item.headers))

    def answer(
        self, left_key: bytes, told: bytes | None, value: Any, time_ms: int, headers: Any
    ) -> Record[bytes, bytes]:
        """Return the answer to a left row: its hash, and the right value."""
        content = piece(told) + piece(encoded(self.right_value, value))
        return Record(left_key, content, time_ms, headers)


class RightChanged(Answer):
    """The right side: answers every subscription of a row that changes."""

    def __init__(
        self,
        right: MakeLookup,
        right_key: Serde[Any],
        right_value: Serde[Any],
        store: str,
        *,
        versioned: bool,
    ) -> None:
        """As `Answer`; late versions change nothing."""
        super().__init__(right, right_key, right_value, store)
        self.versioned = versioned

    def open(self, task: TaskServices) -> None:
        """Count what is dropped."""
        super().open(task)
        self._drop = task.drop

    def receive(self, item: Any) -> None:
        """Answer each left row that is subscribed."""
        change: Change = item
        if change.key is None:
            self._drop(self.name, "null-key", change)
            return
        if self.versioned and not change.is_latest:
            self._drop(self.name, "superseded", change)
            return
        beginning = piece(encoded(self.right_key, change.key))
        for name, kept in list(self._subscriptions.prefix_scan(beginning)):
            left_key = name[len(beginning) :]
            time_ms = max(change.time_ms, int.from_bytes(kept[:8], "big"))
            self.forward(self.answer(left_key, kept[8:], change.new, time_ms, change.headers))


class JoinAnswer(Operator):
    """The left side again: joins an answer with the row that asked, if it is still there."""

    def __init__(
        self,
        left: MakeLookup,
        left_key: Serde[Any],
        left_value: Serde[Any],
        right_value: Serde[Any],
        joiner: Callable[[Any, Any], Any],
        *,
        owed: str | None,
    ) -> None:
        """Look the left row up in *left*; *owed* is as in `Subscribe`."""
        self.left = left
        self.left_key, self.left_value, self.right_value = left_key, left_value, right_value
        self.joiner = joiner
        self.is_left_join = owed is None
        self.owed = owed

    def open(self, task: TaskServices) -> None:
        """Take the lookup, and the store of what is owed."""
        self._look: Lookup = self.left(task)
        self._fail_one = task.fail_one
        self._owed = None if self.owed is None else task.store(self.owed)

    def receive(self, item: Record[bytes, bytes]) -> None:
        """Join, or delete the result; an answer to a row that is gone is nobody's."""
        pieces = Pieces(item.value)
        told = pieces.piece()
        right = decoded(self.right_value, pieces.piece())
        key = self.left_key.decode(item.key)
        row = self._look(key)
        left = None if row is None else row[0]
        if row_hash(self.left_value, left) != (told or b""):
            return
        if self._owed is not None:
            self._owed.put(item.key, None)
        joined = None
        if left is not None and (right is not None or self.is_left_join):
            try:
                joined = self.joiner(left, right)
            except Exception as error:  # noqa: BLE001  # such a row is none (PRC-100)
                self._fail_one(self.name, error)
        self.forward(Change(key, joined, None, item.time_ms, item.headers))
