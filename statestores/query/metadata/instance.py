"""What an instance says of itself: where it answers, what it has, and how far that is (KIP-535)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from statestores.errors import InvalidArgumentError
from statestores.files.strict_json import Fields, parse_object
from statestores.query.metadata.host import Host

FORMAT = 1
"""The format of an instance's record, in a file, a topic or an answer. Another one is refused by
name: whoever wrote it knows roles or offsets that this release would misread."""


class Role(Enum):
    """What an instance has of a partition."""

    ACTIVE = "active"
    """It owns the partition, and has everything that is committed."""

    PROMOTING = "promoting"
    """Its copy is becoming the active one; until then it answers stale reads."""

    RESTORING = "restoring"
    """It will own the partition, and cannot be asked yet."""

    STANDBY = "standby"
    """It has a copy, which may be behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """What an instance has of one partition of one store."""

    role: Role
    """Whether it owns it."""

    current_offset: int | None = None
    """The offset of the next change to apply; ``None`` when nobody knows it."""

    end_offset: int | None = None
    """The offset that the next change of the changelog will have; ``None`` likewise."""

    @property
    def offset_lag(self) -> int | None:
        """How many changes it was behind when it was asked; ``None`` when nobody knows it."""
        if self.current_offset is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.current_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMetadata:
    """What a store is, for whoever asks from elsewhere."""

    description: Mapping[str, Any]
    """The stored form of its specification; see `StoreSpecification.describe`."""

    partitions: int
    """How many partitions it has, here and elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetadata:
    """One instance of an application (KIP-67)."""

    instance: str
    """Its name, which no other instance has."""

    host: Host | None = None
    """Where it answers queries; ``None`` when it does not."""

    http: Host | None = None
    """Where its HTTP face and page are; ``None`` when it has none."""

    stores: Mapping[str, StoreMetadata] = field(default_factory=lambda: MappingProxyType({}))
    """The stores that it knows."""

    partitions: Mapping[str, Mapping[int, PartitionMetadata]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """What it has of each store, by the partition's number."""

    def of(self, store: str) -> Mapping[int, PartitionMetadata]:
        """Return what it has of *store*, by the partition's number."""
        return self.partitions.get(store, {})

    def with_role(self, store: str, *roles: Role) -> list[int]:
        """Return the partitions of *store* that it has in one of these *roles*."""
        return sorted(number for number, each in self.of(store).items() if each.role in roles)

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {
            "format": FORMAT,
            "instance": self.instance,
            "host": None if self.host is None else str(self.host),
            "http": None if self.http is None else str(self.http),
            "stores": {
                name: {"specification": dict(store.description), "partitions": store.partitions}
                for name, store in self.stores.items()
            },
            "partitions": {
                name: {
                    str(number): {
                        "role": each.role.value,
                        "current_offset": each.current_offset,
                        "end_offset": each.end_offset,
                    }
                    for number, each in sorted(numbered.items())
                }
                for name, numbered in self.partitions.items()
            },
        }

    @classmethod
    def from_json(cls, data: bytes, where: str) -> "InstanceMetadata":
        """Return the instance that the JSON text *data* says; *where* names its source.

        Raises:
            StoreCorruptedError: It is none of ours, or of a later release.
        """
        return cls.from_fields(Fields(parse_object(data, where), where))

    @classmethod
    def from_fields(cls, fields: Fields) -> "InstanceMetadata":
        """Return the instance that a record says.

        Raises:
            StoreCorruptedError: It is none of ours, or of a later release.
        """
        if fields.integer("format") != FORMAT:
            fields.refuse("format", str(FORMAT))
        return cls(
            instance=fields.text("instance"),
            host=_host(fields, "host"),
            http=_host(fields, "http"),
            stores={
                name: StoreMetadata(
                    description=store.mapping("specification"),
                    partitions=store.integer("partitions", 1),
                )
                for name, store in fields.inside("stores").items()
            },
            partitions={
                name: {
                    number: _partition(numbered.inside(key)) for number, key in numbered.numbered()
                }
                for name, numbered in fields.inside("partitions").items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMetadata:
    """Where one key is (KIP-535)."""

    partition: int
    """The partition that the store's partitioner gives the key."""

    active: Host | None
    """Where that partition is active; ``None`` while nobody says that it is."""

    standbys: tuple[Host, ...]
    """Where copies of it are, those that are least behind first."""


def _host(fields: Fields, name: str) -> Host | None:
    text = fields.text_or_none(name)
    try:
        return None if text is None else Host.of(text)
    except InvalidArgumentError:
        fields.refuse(name, "null or 'name:port'")


def _partition(fields: Fields) -> PartitionMetadata:
    try:
        role = Role(fields.text("role"))
    except ValueError:
        fields.refuse("role", " or ".join(repr(each.value) for each in Role))
    return PartitionMetadata(
        role=role,
        current_offset=fields.integer_or_none("current_offset"),
        end_offset=fields.integer_or_none("end_offset"),
    )
