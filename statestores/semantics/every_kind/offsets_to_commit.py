"""Which offsets a store commits, and which it refuses (COM-6, LGS-13).

``{partition: n}`` says in every `commit` that it contains everything of the partition up to and
including offset ``n``. A store without a journal keeps these as committed offsets. The only
committed offset of a store with a journal is the journal's, which the commit itself finds out, and
the partitions of its input are its position. Confusing the two would count records twice, or lose
them.
"""

from collections.abc import Mapping

from statestores.errors import InvalidArgumentError, InvalidTypeError, OffsetRegressionError
from statestores.semantics.every_kind.journal import Journal
from statestores.spi.offsets import TopicPartition, check_offset, check_partition


def judge_offsets(
    name: str,
    offsets: Mapping[TopicPartition, int | None],
    committed: Mapping[TopicPartition, int],
    journal: Journal | None,
) -> dict[TopicPartition, int | None]:
    """Return a copy of *offsets* once the store *name* may commit all of them.

    Raises:
        InvalidTypeError, InvalidArgumentError: One is malformed, or the store has a journal.
        OffsetRegressionError: One is lower than the *committed* one.
    """
    if type(offsets) is dict and not offsets:
        return {}
    if not isinstance(offsets, Mapping):
        raise InvalidTypeError(
            f"offsets must map a TopicPartition to an offset, got {offsets!r}; "
            "use {} to leave them as they are"
        )
    staged = dict(offsets)
    for partition, offset in staged.items():
        check_partition(partition)
        if offset is None:
            continue
        check_offset(partition, offset)
        before = committed.get(partition)
        if before is not None and offset < before:
            raise OffsetRegressionError(
                f"offset {offset} of {partition.topic}-{partition.partition} is lower than "
                f"the committed {before}; to start over, commit None or clear_offsets()"
            )
    if staged and journal is not None:
        raise InvalidArgumentError(
            f"{name!r} has a changelog, whose offset is the only one that it commits, by itself; "
            f"got {_in_words(staged)}; to say how far the input has been read, call "
            "advance_position({partition: offset}) before, or commit({partition: offset}) of the "
            "logged store or the task"
        )
    return staged


def refuse_journal_partition(
    name: str, journal: TopicPartition, position: Mapping[TopicPartition, int]
) -> None:
    """Accept a *position* that does not have the partition of the store's own *journal*.

    Raises:
        InvalidArgumentError: It has.
    """
    if journal in position:
        raise InvalidArgumentError(
            f"{journal.topic}-{journal.partition} is the changelog of {name!r}, and a position "
            "names what the store reads; its changelog's offset is committed by itself: leave it "
            "out"
        )


def _in_words(offsets: Mapping[TopicPartition, int | None]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}: {offset}" for tp, offset in offsets.items())
