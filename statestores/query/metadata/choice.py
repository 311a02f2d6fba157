"""Whom to ask: the order of the instances that have a partition, and why some are left out.

A pure function (SRV-4). What instances publish of their lag is a hint, some time old; the instance
that is asked judges its own (SRV-6).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from statestores.query.metadata.host import Host
from statestores.query.metadata.instance import InstanceMetadata, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An instance that has a partition, in some role."""

    instance: str
    """The instance."""

    host: Host | None
    """Where it answers; ``None`` for one that does not, unless it is the asking one."""

    role: Role
    """What it has of the partition."""

    offset_lag: int | None = None
    """How far behind it said it was; ``None`` when it did not say."""

    current_offset: int | None = None
    """How far it said it was."""

    is_local: bool = False
    """Whether it is the one that asks, which needs no network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Whom to ask, one after the other, and whom not."""

    order: tuple[Candidate, ...]
    """Ask the first; the next one when that cannot answer."""

    refused: tuple[tuple[Candidate, str], ...]
    """Those that are not asked, each with the reason."""

    def reasons(self) -> str:
        """Return the reasons as words, for a message."""
        return "; ".join(f"{each.instance} {why}" for each, why in self.refused)


def candidates_for(
    instances: Iterable[InstanceMetadata], store: str, partition: int, *, local: str | None = None
) -> list[Candidate]:
    """Return the instances that have *partition* of *store*; *local* is the one that asks."""
    found = []
    for each in instances:
        part = each.of(store).get(partition)
        if part is not None:
            found.append(
                Candidate(
                    instance=each.instance,
                    host=each.host,
                    role=part.role,
                    offset_lag=part.offset_lag,
                    current_offset=part.current_offset,
                    is_local=each.instance == local,
                )
            )
    return found


def choose(
    candidates: Iterable[Candidate], *, include_stale: bool = False, max_lag: int | None = None
) -> Choice:
    """Return whom to ask for a partition, and in which order.

    Args:
        candidates: The instances that have it.
        include_stale: Whether copies may answer.
        max_lag: How many changes a copy may be behind; ``None``: any number.
    """
    actives: list[Candidate] = []
    copies: list[Candidate] = []
    refused: list[tuple[Candidate, str]] = []
    for each in candidates:
        if each.host is None and not each.is_local:
            refused.append((each, "answers no queries"))
        elif each.role is Role.RESTORING:
            refused.append((each, "is restoring"))
        elif each.role is Role.ACTIVE:
            actives.append(each)
        elif not include_stale:
            refused.append((each, f"is {each.role.value}, and stale reads were not asked for"))
        elif max_lag is not None and each.offset_lag is not None and each.offset_lag > max_lag:
            refused.append((each, f"is {each.offset_lag} changes behind, of at most {max_lag}"))
        else:
            copies.append(each)
    # Of two that say they are active, one has not heard yet that it is not: it has less.
    actives.sort(key=lambda each: (-(each.current_offset or 0), not each.is_local, each.instance))
    copies.sort(
        key=lambda each: (
            each.offset_lag is None,
            each.offset_lag or 0,
            not each.is_local,
            each.instance,
        )
    )
    return Choice(order=(*actives, *copies), refused=tuple(refused))
