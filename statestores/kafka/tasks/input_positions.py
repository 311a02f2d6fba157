"""Where the inputs of a task go on, which waits for transactions that are about to say it."""

import time

from statestores.errors import BrokerError
from statestores.kafka.cluster import Cluster
from statestores.kafka.tasks.group_offsets import GroupOffsets
from statestores.kafka.tasks.restore import Restore


class InputPositions:
    """Asks the group and the cluster. One thread uses it."""

    def __init__(self, offsets: GroupOffsets, cluster: Cluster, hanging_seconds: float) -> None:
        """Offsets that are undecided for *hanging_seconds* are so by a transaction nobody ends."""
        self._offsets = offsets
        self._cluster = cluster
        self._hanging_seconds = hanging_seconds

    def find(self, restore: Restore) -> bool:
        """Note where the inputs of *restore* go on; False while a transaction is to say it.

        Raises:
            BrokerError: The broker refuses, or the transaction is open for longer than any may be.
            OffsetOutOfRangeError: Records are deleted, and the reset is an error.
        """
        known = self._offsets.committed(restore.inputs)
        if known is None:
            self._give_up_undecided(restore)
            return False
        restore.committed = known
        known = self._offsets.with_records(known)
        begun = self._offsets.beginnings(place for place in restore.inputs if place not in known)
        restore.must_say_beginnings = self._offsets.must_say(begun)
        restore.next_offsets = known | begun
        restore.input_ends = self._cluster.ends(restore.inputs, committed=True)
        return True

    def _give_up_undecided(self, restore: Restore) -> None:
        now = time.monotonic()
        if restore.undecided_since is None:
            restore.undecided_since = now
        elif now - restore.undecided_since > self._hanging_seconds:
            raise BrokerError(
                f"the group's committed offsets of {', '.join(map(str, restore.inputs))} have been "
                f"undecided for {self._hanging_seconds:.0f} s: a transaction holds them, and "
                "nobody ends it; look for it with Kafka's `kafka-transactions.sh`, restart the "
                "broker that coordinates the group if there is none, and start again"
            )
