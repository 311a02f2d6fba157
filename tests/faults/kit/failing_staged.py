"""Staged writes of which a call to the operating system fails: the commit path of Spark's jobs."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from judgement import judge_staged
from lives import PARTITIONS, STAGED, staged_content

import statestores as ss
from statestores.changelog import change_schema
from statestores.errors import StateStoreError
from statestores.failpoints import arm, disarm
from statestores.staging.staged_write import StagedRows, publish, stage
from statestores.staging.unfinished_write import finish_staged_writes

_BEFORE, _WRITE, _NEXT = 2, 3, 4


class StagedOperation:
    """One step of a write to two partitions, over a store that has a write already."""

    name: ClassVar[str]
    owners: ClassVar[tuple[str, ...]] = ("staged",)
    going_on: ClassVar[tuple[str, ...]] = ("reopen", "again")

    after = _WRITE

    def __init__(self, directory: Path, owner: str, backend: str, kind: str) -> None:
        self._path = directory / "root"
        self._backend = backend
        self._staged: list[StagedRows] = []
        self._attempts = 0

    def prepare(self) -> None:
        """Make what a copy is taken of."""
        root = ss.StateRoot.create(self._path)
        root.add_store(STAGED, partitions=PARTITIONS)
        for write in range(1, _BEFORE + 1):
            publish(root, STAGED.name, f"write-{write}", self.stage(write))

    def begin(self) -> None:
        """Do what comes before the operation, and does not fail."""
        self._staged = self.stage(_WRITE)

    def run(self) -> None:
        """Do it."""
        publish(
            ss.StateRoot.open(self._path), STAGED.name, f"write-{_WRITE}", self._staged, "overwrite"
        )

    def stage(self, write: int) -> list[StagedRows]:
        """Stage the rows of *write*, as two tasks."""
        rows = [{"key": key, "value": value} for key, value in staged_content(write).items()]
        batch = pa.RecordBatch.from_pylist(rows, schema=change_schema(STAGED.kind))
        half = batch.num_rows // 2
        self._attempts += 1
        return [
            stage(
                self._path,
                STAGED,
                PARTITIONS,
                f"write-{write}",
                f"task-{task}-{self._attempts}",
                [part],
            )
            for task, part in enumerate((batch.slice(0, half), batch.slice(half)))
        ]

    def judge(self, *, raised: bool, going_on: str) -> Iterator[str]:
        """Yield what is wrong, once all calls pass again."""
        promised = _BEFORE if raised else self.after
        if raised and going_on == "again":
            try:
                self.begin()
                self.run()
            except StateStoreError:
                pass
            else:
                promised = self.after
        root = ss.StateRoot.open(self._path)
        seen, wrong = judge_staged(self._path, promised, self.after, backend=self._backend)
        yield from wrong
        try:
            finish_staged_writes(root, STAGED.name, abandoned_after_ms=-1_000)
            publish(root, STAGED.name, f"write-{_NEXT}", self.stage(_NEXT), "overwrite")
        except StateStoreError as error:
            yield f"the next write after {seen}: {error!r}"
        yield from judge_staged(self._path, _NEXT, _NEXT, backend=self._backend)[1]
        left = [str(path) for path in self._path.glob("*/.writes/write-*")]
        yield from (f"left behind: {path}" for path in left)


class Publish(StagedOperation):
    """Publish what two tasks have staged."""

    name = "publish"


class Stage(StagedOperation):
    """Stage rows, and publish nothing."""

    name = "stage"
    after = _BEFORE

    def begin(self) -> None:
        """Nothing comes before."""

    def run(self) -> None:
        self.stage(_WRITE)


class Finish(StagedOperation):
    """Finish a write whose publisher has died after its commit."""

    name = "finish"

    def prepare(self) -> None:
        super().prepare()
        staged = self.stage(_WRITE)
        arm("publish.committed", _stop)
        try:
            publish(
                ss.StateRoot.open(self._path), STAGED.name, f"write-{_WRITE}", staged, "overwrite"
            )
        except _StoppedError:
            disarm()

    def begin(self) -> None:
        """Nothing comes before."""

    def run(self) -> None:
        finish_staged_writes(ss.StateRoot.open(self._path), STAGED.name)

    def judge(self, *, raised: bool, going_on: str) -> Iterator[str]:
        # It is committed, whoever fails to finish it.
        if raised and going_on == "again":
            self.run()
        yield from super().judge(raised=False, going_on=going_on)


class _StoppedError(Exception):
    """Stands for the death of the process at a failpoint."""


def _stop() -> None:
    raise _StoppedError
