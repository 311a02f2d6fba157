"""Which topic a store reflects, noted in it: a name may be that of another topic later (KFK-42).

The note is among the committed offsets, as the mark of a half restore is, so it is committed with
the first rows of the topic. A store of an earlier release has none, and is noted as it goes on.
"""

from statestores.kafka.cluster import NO_ID
from statestores.spi import StateStore, TopicPartition

_ID = "#id:"
"""Stands in no name of a topic: ``#`` is not in Kafka's alphabet."""


class NotedTopic:
    """The note of one topic in one store."""

    def __init__(self, store: StateStore, topic: str, topic_id: str) -> None:
        """Find what *store* says of *topic*, which has *topic_id* now."""
        place = TopicPartition(f"{topic}{_ID}{topic_id}", 0)
        noted = {each for each in store.committed_offsets() if each.topic.startswith(topic + _ID)}
        is_known = topic_id != NO_ID
        self.is_other = is_known and bool(noted) and place not in noted
        """Whether the store reflects an earlier topic of that name."""
        self._place = place
        self._is_due = is_known and not noted

    def has_been_emptied(self) -> None:
        """Note that the store has nothing of any topic any more."""
        self.is_other = False
        self._is_due = not self._place.topic.endswith(_ID + NO_ID)

    def offsets(self) -> dict[TopicPartition, int]:
        """Return what the next commit notes."""
        return {self._place: 0} if self._is_due else {}

    def has_been_committed(self) -> None:
        """Note that `offsets` are in the store."""
        self._is_due = False
