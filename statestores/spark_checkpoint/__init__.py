"""The layout of Spark's checkpoints, as far as state is concerned: written without Spark.

What is written is what `HDFSBackedStateStoreProvider` writes, so Spark's own
``format("statestore")`` reads it. Read `checkpoint` first, then `state_file` and `unsafe_rows`.
"""

from statestores.spark_checkpoint.checkpoint import CheckpointDirectory
from statestores.spark_checkpoint.column_types import spark_type, struct_json
from statestores.spark_checkpoint.state_file import StateFileWriter
from statestores.spark_checkpoint.unsafe_rows import UnsafeRows

__all__ = [
    "CheckpointDirectory",
    "StateFileWriter",
    "UnsafeRows",
    "spark_type",
    "struct_json",
]
