"""From Kafka Streams to statestores: legacy offset files, and whole state directories."""

from statestores.migration.kafka_kinds import ROW_SCHEMAS, KafkaKind
from statestores.migration.kafka_layout import Ignored
from statestores.migration.kafka_offsets import KafkaOffsets
from statestores.migration.kafka_state import KafkaStateDirectory, KafkaStore
from statestores.migration.legacy_offsets import (
    LegacyImport,
    import_legacy_offsets,
    write_legacy_offsets,
)
from statestores.migration.offsets_file import (
    UNKNOWN_OFFSET,
    read_offsets_file,
    write_offsets_file,
)

__all__ = [
    "ROW_SCHEMAS",
    "UNKNOWN_OFFSET",
    "Ignored",
    "KafkaKind",
    "KafkaOffsets",
    "KafkaStateDirectory",
    "KafkaStore",
    "LegacyImport",
    "import_legacy_offsets",
    "read_offsets_file",
    "write_legacy_offsets",
    "write_offsets_file",
]
