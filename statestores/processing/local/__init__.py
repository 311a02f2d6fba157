"""The local runner: durable topics and stores in directories, one process, exactly once."""

import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.processing.local.progress import RunProgress
from statestores.processing.local.runner import LocalRunner
from statestores.processing.local.running import run
from statestores.processing.local.topics import LocalTopic, LocalTopics, StoredRecord

__all__ = ["LocalRunner", "LocalTopic", "LocalTopics", "RunProgress", "StoredRecord", "run"]
