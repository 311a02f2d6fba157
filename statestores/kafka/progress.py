"""How far a run on Kafka has come, and how far its input is ahead."""

from collections.abc import Mapping
from dataclasses import dataclass

from statestores.spi import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProgress:
    """Counted since the run began, over all tasks that the instance has had."""

    processed: int
    """Records that were read and processed; one that is processed again counts again."""

    emitted: int
    """Records that were written, to internal topics and dead letters too, without changelogs."""

    dropped: int
    """Records that went no further, for whatever reason."""

    commits: int
    """Commits: transactions, where there are such."""

    aborts: int
    """Transactions that were taken back, and whose records were processed again."""

    rejoins: int
    """How often the instance was fenced and has joined the group anew."""

    running: tuple[str, ...]
    """The tasks that run here."""

    restoring: tuple[str, ...]
    """The tasks whose stores are being brought up."""

    standbys: tuple[str, ...]
    """The tasks of other instances whose stores are kept up to date here."""

    lag: Mapping[TopicPartition, int]
    """How many offsets each partition that is read here is ahead of what was processed."""
