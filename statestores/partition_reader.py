"""`PartitionReader` at the address that programs know; see `statestores.reading`."""

from statestores.reading.partition_reader import PartitionReader

__all__ = ["PartitionReader"]
