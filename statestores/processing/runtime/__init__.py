"""The runtime of a task, and what a runner needs around it."""

from statestores.processing.runtime.column_ways import LEAST_COLUMN_ROWS, LEAST_RUN_ROWS
from statestores.processing.runtime.head_times import head_times
from statestores.processing.runtime.record_order import NextRecord, RecordOrder
from statestores.processing.runtime.task_log import TaskLog
from statestores.processing.runtime.task_metrics import TaskCounts
from statestores.processing.runtime.task_runtime import TaskRuntime

__all__ = [
    "LEAST_COLUMN_ROWS",
    "LEAST_RUN_ROWS",
    "NextRecord",
    "RecordOrder",
    "TaskCounts",
    "TaskLog",
    "TaskRuntime",
    "head_times",
]
