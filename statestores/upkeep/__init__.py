"""What keeps the files of a store small, done by whoever can see them: no engine is needed.

`snapshots` writes a snapshot of a partition from its files or objects, beside its owner;
`compaction` and `vacuum` take the lock of a changelog for as long as they change it, and those for
object stores need none. Each is a value that does its work where it is called, so that it can be
sent to a task.
"""

from statestores.upkeep.compaction import CompactedPartition, Compaction
from statestores.upkeep.object_compaction import ObjectCompaction
from statestores.upkeep.object_vacuum import ObjectVacuum, VacuumedObjects
from statestores.upkeep.partitions import stores_and_partitions
from statestores.upkeep.snapshots import FileSnapshot
from statestores.upkeep.vacuum import Vacuum, VacuumedPartition

__all__ = [
    "CompactedPartition",
    "Compaction",
    "FileSnapshot",
    "ObjectCompaction",
    "ObjectVacuum",
    "Vacuum",
    "VacuumedObjects",
    "VacuumedPartition",
    "stores_and_partitions",
]
