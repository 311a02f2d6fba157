"""The ways of columns through a task: batches and blocks, made when first asked for.

From how many records on columns are worth it is known here alone. A task in a process without
Arrow has neither, and goes record by record.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from statestores.errors import MissingDriverError
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.runtime.node_meters import NEVER_COLUMNS

if TYPE_CHECKING:
    from statestores.processing.runtime.batches import Batches
    from statestores.processing.runtime.blocks import Blocks
    from statestores.processing.runtime.task_runtime import TaskRuntime

LEAST_COLUMN_ROWS = 1_000
"""From so many records on a batch gives the last update of each key only."""

LEAST_RUN_ROWS = 256
"""Below that, records one by one are faster than columns of which every update comes out."""


class ColumnWays:
    """The ways of columns through one task."""

    def __init__(
        self,
        task: "TaskRuntime",
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        errors: ErrorPolicy,
        *,
        least_rows: int,
        least_run_rows: int,
        has_cache: bool,
    ) -> None:
        """Be those of *task*: of batches from *least_rows* on, of runs from *least_run_rows* on.

        With a cache of updates there are no runs: not every update comes out.
        """
        self._task = task
        self._operators = operators
        self._ways = ways
        self._errors = errors
        self._least_rows = least_rows
        self._has_cache = has_cache
        self._least_run_rows = NEVER_COLUMNS if has_cache else least_run_rows

    def use_from(self, least_rows: int | None, least_run_rows: int | None) -> None:
        """Process batches as columns and runs from so many records on; ``None``: as before."""
        if least_rows is not None:
            self._least_rows = least_rows
        if least_run_rows is not None and not self._has_cache:
            self._least_run_rows = least_run_rows
        self.__dict__.pop("batches", None)
        self.__dict__.pop("blocks", None)

    def are_taken(self, topic: str) -> bool:
        """Whether batches of *topic* are processed as columns when they are large enough."""
        return self.batches is not None and self.batches.has_columns(topic, 1 << 62)

    @property
    def declined(self) -> dict[str, dict[str, int]]:
        """Which steps were given columns and used records, why, and how often."""
        if self.batches is None:
            return {}
        return self.batches.declined | self.blocks.declined

    @cached_property
    def batches(self) -> "Batches | None":
        """The ways of batches; ``None`` without Arrow."""
        try:
            module = import_module("statestores.processing.runtime.batches")
        except MissingDriverError:
            return None
        made: Batches = module.Batches(
            self._task, self._operators, self._ways, self._least_rows, self._least_run_rows
        )
        return made

    @cached_property
    def blocks(self) -> "Blocks":
        """What takes blocks. Requires: Arrow is there."""
        module = import_module("statestores.processing.runtime.blocks")
        made: Blocks = module.Blocks(
            self._task,
            self._operators,
            self._ways,
            self.batches,
            self._errors,
            self._least_rows,
            self._least_run_rows,
        )
        return made
