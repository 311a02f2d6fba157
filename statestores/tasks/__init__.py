"""Tasks: the stores of one partition together, standbys of them, and the directory they lie in."""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.tasks.lag import (
    LATEST_OFFSET,
    OFFSET_UNKNOWN,
    UNKNOWN_OFFSET_SUM,
    LagInfo,
    task_offset_sum,
)
from statestores.tasks.local_directory import LocalDirectory, Orphan, RemovedEngine
from statestores.tasks.opening import open_task
from statestores.tasks.rebuilding import OnCorruption, Rebuild
from statestores.tasks.restore_progress import RestoreListener, RestoreProgress
from statestores.tasks.standby import Standby
from statestores.tasks.standby_opening import open_standby
from statestores.tasks.task import Task
from statestores.tasks.task_id import TaskId
from statestores.tasks.task_manager import TaskManager
from statestores.tasks.task_state import TaskState

__all__ = [
    "LATEST_OFFSET",
    "OFFSET_UNKNOWN",
    "UNKNOWN_OFFSET_SUM",
    "LagInfo",
    "LocalDirectory",
    "OnCorruption",
    "Orphan",
    "Rebuild",
    "RemovedEngine",
    "RestoreListener",
    "RestoreProgress",
    "Standby",
    "Task",
    "TaskId",
    "TaskManager",
    "TaskState",
    "open_standby",
    "open_task",
    "task_offset_sum",
]
