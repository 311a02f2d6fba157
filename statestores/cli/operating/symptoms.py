"""What is wrong with one state root: ailments, with where they are and the command filled in."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statestores.cli.operating.ailments import AILMENTS, Ailment, Severity
from statestores.reading.locations import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One thing that is wrong, or good to know."""

    ailment: Ailment
    """What it is."""

    path: Path | str
    """Where it is: a path, or a place in an object store."""

    detail: str
    """What was found there."""

    store: str | None = None
    """Of which store."""

    partition: int | None = None
    """Of which partition of it."""

    command: str | None = None
    """What mends it, as a shell takes it."""

    @property
    def is_trouble(self) -> bool:
        """Whether it is more than good to know."""
        return self.ailment.severity is not Severity.NOTE

    def as_json(self) -> dict[str, Any]:
        """Return it with the fields of ``docs/operating.md``."""
        return {
            "code": self.ailment.code,
            "severity": self.ailment.severity.value,
            "store": self.store,
            "partition": self.partition,
            "path": str(self.path),
            "detail": self.detail,
            "meaning": self.ailment.meaning,
            "command": self.command,
        }


class Diagnosis:
    """Makes symptoms of one state root."""

    def __init__(self, root: Path | str, local: Path | None) -> None:
        """Say of *root*, whose engines may lie in *local*, what is wrong."""
        self._root = root
        self._local = "" if local is None else f" --local {shlex.quote(str(local))}"

    def __call__(  # noqa: D102  # of the class
        self,
        code: str,
        path: Path | str,
        detail: str,
        partition: Partition | None = None,
        *,
        store: str | None = None,
        backend: str = "",
        partitions: int | None = None,
    ) -> Symptom:
        ailment = AILMENTS[code]
        number = None if partition is None else partition.number
        if partition is not None and partition.specification is not None:
            store = partition.specification.name
        command = ailment.command
        if command is not None:
            command = command.format(
                root=shlex.quote(str(self._root)),
                store=shlex.quote(store or ""),
                partition=number,
                partitions=partitions,
                path=shlex.quote(str(path)),
                local=self._local,
                backend=backend,
            )
        return Symptom(
            ailment=ailment,
            path=path,
            detail=detail,
            store=store,
            partition=number,
            command=command,
        )
