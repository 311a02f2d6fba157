"""Every error that statestores raises, in one tree, grouped by when you can meet it.

Each class also derives from the fitting builtin, so ``except LookupError`` works for a caller who
does not know this module. The driver's own error is the ``__cause__``. ``retryable`` says whether
the same call may succeed later without a change by the caller.
"""

from typing import ClassVar


class StateStoreError(Exception):
    """The root of the tree."""

    retryable: ClassVar[bool] = False
    """Whether trying the same call again can help."""


# Finding a backend, reading options.


class UnknownBackendError(StateStoreError, LookupError):
    """No backend is registered under the name."""


class MissingDriverError(StateStoreError, ImportError):
    """The backend is registered, but the package that it drives is not installed."""


class InvalidOptionError(StateStoreError, ValueError):
    """An option is unknown, or its value cannot be read."""


class CapabilityNotSupportedError(StateStoreError, NotImplementedError):
    """The backend or store does not promise what was asked of it."""


# Opening.


class StoreNotFoundError(StateStoreError, FileNotFoundError):
    """There is no store, state root, changelog or snapshot at the path."""


class StoreLockedError(StateStoreError, BlockingIOError):
    """Another process, or another handle in this one, holds the exclusive lock."""

    retryable = True


class MemoryBudgetExceededError(StateStoreError, MemoryError):
    """A `MemoryBudget` has no room for one more store."""

    retryable = True


class StoreMismatchError(StateStoreError, ValueError):
    """What is stored differs from what the caller expects; the message says in what."""


class StoreReshardedError(StoreMismatchError):
    """The store has got other partitions since this was opened; open the state root again."""


class UnsupportedFormatError(StateStoreError, ValueError):
    """The data was written in a format version that this release does not know."""


class StoreCorruptedError(StateStoreError, OSError):
    """Stored bytes are damaged or contradict each other."""


class ChangelogCorruptedError(StoreCorruptedError):
    """A changelog is damaged before its tail; the message names segment and offset."""


class SnapshotCorruptedError(StoreCorruptedError):
    """A snapshot's files do not match its manifest."""


class MalformedCheckpointError(StoreCorruptedError):
    """A legacy ``.checkpoint`` or ``.position`` file is cut or malformed; see file and line."""


# Reading and writing.


class StoreClosedError(StateStoreError, ValueError):
    """The store, engine, snapshot or the store behind an iterator has been closed.

    Or it, or the threads of its driver, stayed with the process that this one was forked from.
    """


class InvalidArgumentError(StateStoreError, ValueError):
    """An argument has the right type and a value that is not allowed."""


class InvalidTypeError(StateStoreError, TypeError):
    """An argument has the wrong type."""


class SerializationError(StateStoreError, ValueError):
    """A serde cannot turn a value into bytes, or bytes into a value."""


class StorageError(StateStoreError, OSError):
    """The operating system or driver cannot read or write: disk full, I/O error, no permission."""


class CommitInDoubtError(StorageError):
    """A write failed in such a way that only reopening can tell whether it is there (ENG-39).

    Close the store and open it again: what the opening finds is what counts.
    """


class OffsetOutOfRangeError(StateStoreError, LookupError):
    """A changelog does not hold the offset: compacted away, or not yet written."""


# Committing.


class OffsetRegressionError(StateStoreError, ValueError):
    """An offset to commit is lower than the committed one."""


class CommitConflictError(StateStoreError, RuntimeError):
    """Another writer changed the store between the read and the commit."""

    retryable = True


class FencedError(StateStoreError, RuntimeError):
    """Another process has taken the partition over; nothing of this commit was written.

    Close the store. Opening it again takes the partition back, and fences the other one.
    """


# Querying running state.


class UnknownStateStoreError(StateStoreError, LookupError):
    """There is no store of that name, or it is not of the type that was asked for (KIP-67)."""


class InvalidStateStoreError(StateStoreError, LookupError):
    """The store, or the partition that has the key, cannot be read here now (KIP-67).

    It is opening, moving, restoring or on another machine: find out where it is and try again.
    """

    retryable = True


class NotUpToBoundError(StateStoreError, LookupError):
    """A partition has not yet reached the position that a query asks for (KIP-796).

    The message names the partition, what it has and what was asked. Try again, or elsewhere.
    """

    retryable = True


class MisplacedKeyError(StateStoreError, LookupError):
    """A key is not in the partition that the store's partitioner gives it, and is in another one.

    The message names the partition that has it. Declare the partitioner that the writer uses, or
    ask that partition.
    """


class UnreachableInstanceError(StateStoreError, ConnectionError):
    """An instance did not answer a query in time, or at all. Another one may, or this one later."""

    retryable = True


class AccessDeniedError(StateStoreError, PermissionError):
    """An instance does not know who asks: the token or the certificate is missing or wrong."""


class LimitExceededError(StateStoreError, ValueError):
    """A query asks for more rows, bytes or time than the instance gives; ask for less at once."""


# Processing.


class InvalidTopologyError(StateStoreError, ValueError):
    """A topology cannot be run as it is described; the message says what to change."""


class TopologyMismatchError(StateStoreError, ValueError):
    """A topology would find other internal topics or stores than those it has left behind."""


class ProcessingError(StateStoreError, RuntimeError):
    """A record could not be processed; the cause says why.

    The message names the topic, the partition, the offset and the operator.
    """


class InvalidTimeError(StateStoreError, ValueError):
    """A record has no time that could be one."""


# Talking to a Kafka cluster.


class BrokerError(StateStoreError, ConnectionError):
    """A Kafka cluster refused a request, or did not answer; the cause is the client's error."""


class InstanceFencedError(StateStoreError, RuntimeError):
    """Another process has this instance's place in its transactions, or they took too long."""
