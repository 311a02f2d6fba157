"""From Kafka Streams, Quix Streams, Faust, Bytewax and plain databases; and to Spark's state."""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.migration.kafka.importing import (
    ImportPlan,
    import_kafka_state,
    plan_import,
)
from statestores.migration.kafka.kinds import ROW_SCHEMAS, KafkaKind
from statestores.migration.kafka.layout import Ignored
from statestores.migration.kafka.legacy_offsets import (
    LegacyImport,
    import_legacy_offsets,
    write_legacy_offsets,
)
from statestores.migration.kafka.offsets import KafkaOffsets
from statestores.migration.kafka.offsets_file import (
    UNKNOWN_OFFSET,
    read_offsets_file,
    write_offsets_file,
)
from statestores.migration.kafka.state import KafkaStateDirectory, KafkaStore
from statestores.migration.partition_import import ImportedPartition
from statestores.migration.peers.bytewax import BytewaxRecoveryStore
from statestores.migration.peers.databases import LevelDBDatabase, RocksDBDatabase, SQLiteTable
from statestores.migration.peers.faust import FaustTables
from statestores.migration.peers.importing import PeerPlan, import_peer_state, plan_peer_import
from statestores.migration.peers.quix import QuixStateDirectory
from statestores.migration.peers.source import PEER_ROW_SCHEMAS, PeerState, PeerStore
from statestores.migration.spark.export import SparkExport, export_spark_checkpoint
from statestores.migration.versions_of_plain import import_as_versioned

__all__ = [
    "PEER_ROW_SCHEMAS",
    "ROW_SCHEMAS",
    "UNKNOWN_OFFSET",
    "BytewaxRecoveryStore",
    "FaustTables",
    "Ignored",
    "ImportPlan",
    "ImportedPartition",
    "KafkaKind",
    "KafkaOffsets",
    "KafkaStateDirectory",
    "KafkaStore",
    "LegacyImport",
    "LevelDBDatabase",
    "PeerPlan",
    "PeerState",
    "PeerStore",
    "QuixStateDirectory",
    "RocksDBDatabase",
    "SQLiteTable",
    "SparkExport",
    "export_spark_checkpoint",
    "import_as_versioned",
    "import_kafka_state",
    "import_legacy_offsets",
    "import_peer_state",
    "plan_import",
    "plan_peer_import",
    "read_offsets_file",
    "write_legacy_offsets",
    "write_offsets_file",
]
