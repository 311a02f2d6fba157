"""From Kafka Streams: legacy offset files and whole state directories; and to Spark's state."""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.migration.kafka.importing import (
    ImportedPartition,
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
from statestores.migration.spark.export import SparkExport, export_spark_checkpoint

__all__ = [
    "ROW_SCHEMAS",
    "UNKNOWN_OFFSET",
    "Ignored",
    "ImportPlan",
    "ImportedPartition",
    "KafkaKind",
    "KafkaOffsets",
    "KafkaStateDirectory",
    "KafkaStore",
    "LegacyImport",
    "SparkExport",
    "export_spark_checkpoint",
    "import_kafka_state",
    "import_legacy_offsets",
    "plan_import",
    "read_offsets_file",
    "write_legacy_offsets",
    "write_offsets_file",
]
