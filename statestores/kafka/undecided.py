"""Ends of partitions about which transactions are still undecided.

A transaction is committed as soon as its coordinator says so; its partitions learn of it moments
later, each on its own. Until then the last stable offset hides records that are committed, also
those that the asker itself has committed (KAFKA-10167). So an end is the high watermark, and who
stands before it at the last stable offset waits until the partition knows.
"""

import time
from collections.abc import Mapping

from statestores.kafka.client_settings import CLIENT_LOGGER
from statestores.kafka.cluster import Cluster
from statestores.spi import TopicPartition

PATIENCE_SECONDS = 30.0
"""Longer than brokers leave the transaction of an instance that died: ten seconds, and up to ten
more until they look. Others may take longer; their records have not come yet."""


class UndecidedEnds:
    """How long somebody has waited at the last stable offsets of partitions."""

    def __init__(self, cluster: Cluster) -> None:
        """Nobody waits yet."""
        self._cluster = cluster
        self._waiting: dict[TopicPartition, int] = {}
        self._since = 0.0

    def are_reached(
        self, reached: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether nothing before *ends*, the high watermarks, is still to be read from *reached*.

        It may take several calls until that is known. What is still undecided after
        `PATIENCE_SECONDS` without any progress is told to the log, and taken for the end.

        Raises:
            BrokerError: The cluster does not answer.
        """
        before = {place: reached[place] for place, end in ends.items() if reached[place] < end}
        if not before:
            return True
        stable = self._cluster.ends(before, committed=True)
        now = time.monotonic()
        if before != self._waiting or any(stable[place] > at for place, at in before.items()):
            self._waiting, self._since = before, now
        elif now - self._since > PATIENCE_SECONDS:
            hidden = (f"{name}/{number} from offset {at}" for (name, number), at in before.items())
            CLIENT_LOGGER.warning(
                "transactions of other producers have been open for %.0f s; what they wrote to %s "
                "has not come yet",
                PATIENCE_SECONDS,
                ", ".join(hidden),
            )
            return True
        return False
