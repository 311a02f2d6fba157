"""Three instances of an application, as the others know them, and a clock for their leases."""

import statestores as ss
from statestores.query.metadata import (
    Host,
    InstanceMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
)

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


def instance(name: str, port: int | None, **roles: tuple[Role, int | None]) -> InstanceMetadata:
    """Return an instance with partitions ``p0``, ``p1`` of counts, each in a role with a lag."""
    return InstanceMetadata(
        instance=name,
        host=None if port is None else Host("127.0.0.1", port),
        stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=2)},
        partitions={
            "counts": {
                int(key[1:]): PartitionMetadata(
                    role=role,
                    current_offset=None if lag is None else 100 - lag,
                    end_offset=None if lag is None else 100,
                )
                for key, (role, lag) in roles.items()
            }
        },
    )


ONE = instance("one", 7001, p0=(Role.ACTIVE, 0), p1=(Role.STANDBY, 30))


TWO = instance("two", 7002, p0=(Role.STANDBY, 5), p1=(Role.ACTIVE, 0))


THREE = instance("three", 7003, p0=(Role.STANDBY, 2), p1=(Role.RESTORING, 90))


class Clock:
    """A monotonic clock that goes by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds
