"""Named places at which a test can stop, fail or kill the process.

A crash does its harm between two steps, and those are few and known. Each of them calls `reach`
with its name; a test arms a name, and the process dies exactly there instead of somewhere near.
Nothing else arms one: there is no option and no environment variable. Unarmed, `reach` is one call
and one lookup in an empty dictionary (about 50 ns), and no failpoint is on the path of a read or a
put.
"""

from collections.abc import Callable
from dataclasses import dataclass

from statestores.errors import InvalidArgumentError

FAILPOINTS: dict[str, str] = {
    "commit.apply.before": "the batch of a commit is complete, and the engine has not seen it",
    "commit.apply.after": "the engine has applied the batch of a commit, and nobody knows yet",
    "vacuum.swept": "the vacuum has chosen what the commit under way deletes",
    "truncate.marked": "the store is marked as being emptied, and holds everything still",
    "truncate.deleted": "a part of a store that is being emptied has been deleted",
    "store.engine-created": "a new store's engine is there, and its backend is not noted yet",
    "logged.appended": "the changelog has a commit or a truncation, and the store has not",
    "changelog.append.before": "a frame is complete, and nothing of it is written",
    "changelog.append.written": "a frame is written, and not on disk",
    "changelog.append.durable": "a frame is on disk, and its append has not returned",
    "changelog.open.cut": "a torn tail has been cut, and the cut is not on disk",
    "changelog.roll.before": "the active segment is complete, and the next one not begun",
    "changelog.segment.durable": "a new segment is on disk under its temporary name",
    "changelog.segment.renamed": "a new segment has its name, which is not on disk",
    "changelog.segment.published": "a new segment and its name are on disk",
    "changelog.removed": "a segment has been removed, and its going is not on disk",
    "objects.append.before": "a frame is complete, and the object store has not seen it",
    "objects.append.settled": "the object store has a frame that counts, and nobody knows yet",
    "objects.staged": "a task has put its rows, and no entry names them",
    "objects.write.checked": "everything of a write is put but the entry that commits it",
    "objects.write.committed": "an entry has committed a write, and nobody knows yet",
    "objects.snapshot.put": "a data file of a snapshot is put, and others or its manifest are not",
    "objects.snapshot.complete": "everything of a snapshot is put but its manifest",
    "objects.snapshot.published": "a snapshot counts, and nobody knows yet",
    "objects.snapshot.voided": "a snapshot that nobody has finished is voided, and is there still",
    "objects.snapshot.unpublished": "a snapshot has lost its manifest, and its data are there",
    "compaction.chosen": "a compaction knows what remains, and has written nothing",
    "compaction.written": "a compacted segment is written, and not on disk",
    "compaction.published": "a compacted segment counts, and what it replaces is there still",
    "snapshot.data-written": "a data file of a snapshot is written, and not on disk",
    "snapshot.manifest-written": "everything of a snapshot is on disk but its names",
    "snapshot.rename.before": "a snapshot is on disk under its temporary name",
    "snapshot.rename.after": "a snapshot has its name, which is not on disk",
    "snapshot.durable": "a snapshot and its name are on disk, and nobody knows yet",
    "native.copied": "an engine's files are copied for a native part, and there is no snapshot",
    "native.described": "the snapshot is there, and its native part is whole but for its name",
    "native.removed": "a snapshot that is being removed has lost its native part",
    "native.restoring": "some of a native part's files are copied for a new engine",
    "native.restored": "a new engine made of a native part is on disk but for its name",
    "native.renamed": "a new engine made of a native part has its name, which is not on disk",
    "restore.begun": "a store has been emptied for a restore, and nothing is loaded yet",
    "restore.chunk": "a part of a snapshot is loaded and committed under the mark",
    "restore.loaded": "the last rows of a snapshot are pending, and the mark stands",
    "restore.completed": "the last rows of a snapshot and its offsets are committed",
    "restore.replayed": "some changes behind a snapshot or an offset are committed",
    "json.written": "a small file is written under its temporary name, and not on disk",
    "json.durable": "a small file is on disk under its temporary name",
    "json.renamed": "a small file has replaced the one before it, which is not on disk",
    "stage.file-written": "a file of a staged write is written, and not on disk",
    "stage.files-durable": "the files of a staged write are on disk, and nobody knows yet",
    "kafka.batch-restored": "a store has more of its changelog, and lacks the rest",
    "kafka.changes-written": "a transaction has all changes and outputs, and is not committed",
    "kafka.step-written": "with at least once, the topics have a part of a commit (KFK-43)",
    "kafka.committed": "a transaction is committed, and no store has it",
    "kafka.store-committed": "a transaction is committed, and one task's stores have it",
    "task.batch-processed": "a batch is processed as columns or as a run, and not committed",
    "task.updates-given": "updates that waited have come out, and are not committed",
    "task.record-written": "the commit of several stores is written, and not on disk",
    "task.recording": "the commit of several stores is on disk, and its record has no name",
    "task.recorded": "the commit of several stores is recorded, and none of them has it",
    "task.outputs-appended": "what a recorded commit emits is in its topics, and no store has it",
    "task.output-appended": "one partition of a topic has what a recorded commit emits to it",
    "task.carried-out": "every store has a recorded commit, and the record is there still",
    "task.noting": "a store of a task has its first commit, and the task has not noted that",
    "task.forgotten": "the record of a commit is gone, and its going is not on disk",
    "copies.renamed": "a copy of a store that nobody keeps has a name that is none, and is there",
    "reset.begun": "what a reset removes is noted, and is there still",
    "reset.removed": "a reset has removed something, and not everything",
    "sink.recorded": "the files of a sink's commit are made, and in no record yet",
    "sink.copied": "a file of a sink is beside those that are seen, under a name that is not",
    "sink.published": "a file of a sink can be seen, and its name is not on disk",
    "operator.staged": "the tasks of a micro-batch have put everything, and no record names it",
    "operator.claimed": "the record of a micro-batch is there, and does not count",
    "operator.committed": "an entry has committed a micro-batch, and its other stores lack it",
    "operator.carried-out": "all stores have a micro-batch, and what it beats is there still",
    "publish.checked": "a staged write may be published, and is not committed",
    "publish.committed": "a staged write is committed, and appended nowhere",
    "publish.appended": "one partition has got its part of a staged write",
    "reshard.routed": "the rows of all old partitions are split, and no new one is begun",
    "reshard.built": "all new partitions are on disk, and the root names the old ones",
    "objects.reshard.exchanged": "an object has rows that a reshard moves, and others are not put",
    "objects.reshard.announced": "the root says that a log may have ended, and it goes on",
    "objects.reshard.fenced": "an operator knows of a reshard of a store that is not its anchor",
    "objects.reshard.ended": "a log has ended, and the root does not name the next one yet",
    "reshard.noted": "the root names the new partitions, and the old ones are there still",
    "reshard.retired": "an old partition has no name any more, and its files are there still",
    "publish.finished": "a staged write is noted as finished, and its files are there still",
}
"""Every failpoint, and what holds when it is reached."""


@dataclass(slots=True)
class _Armed:
    """What happens at a failpoint."""

    action: Callable[[], object]
    at: int | None
    reached: int = 0


_armed: dict[str, _Armed] = {}


def reach(name: str) -> None:
    """Say that the process is at the failpoint *name*; nothing happens unless a test armed it."""
    if _armed:
        _act(name)


def arm(name: str, action: Callable[[], object], *, at: int | None = None) -> None:
    """Have *action* called when the failpoint *name* is reached: every time, or the *at*-th time.

    For tests. What the action raises, the caller of `reach` raises.

    Raises:
        InvalidArgumentError: There is no such failpoint, or *at* is below 1.
    """
    if name not in FAILPOINTS:
        raise InvalidArgumentError(
            f"there is no failpoint {name!r}; known: {', '.join(sorted(FAILPOINTS))}"
        )
    if at is not None and at < 1:
        raise InvalidArgumentError(f"at must be from 1, the first time, got {at!r}")
    _armed[name] = _Armed(action, at)


def disarm() -> None:
    """Have nothing happen at any failpoint again."""
    _armed.clear()


def _act(name: str) -> None:
    armed = _armed.get(name)
    if armed is None:
        return
    armed.reached += 1
    if armed.at is None or armed.at == armed.reached:
        armed.action()
