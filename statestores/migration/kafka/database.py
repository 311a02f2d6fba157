"""A RocksDB database of Kafka Streams."""

from typing import ClassVar

from statestores.migration.rocksdb_files import RocksDBFiles


class KafkaDatabase(RocksDBFiles):
    """An open database; its rows are as of the opening."""

    purpose: ClassVar[str] = "reading the state of Kafka Streams"
    remedy: ClassVar[str] = "let Kafka Streams restore the store"
