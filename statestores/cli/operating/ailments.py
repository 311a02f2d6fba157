"""Everything that `doctor` knows to be wrong with a state root: what it means, and what mends it.

The page ``docs/operating.md`` has this table, and a test holds the two together. Commands are
templates; `Symptom` has them filled in, ready for a shell.
"""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad something is."""

    ERROR = "error"
    """Something is damaged or missing, and something will fail."""

    WARNING = "warning"
    """Nothing has failed, and something will, or will take long."""

    NOTE = "note"
    """Good to know; it mends itself, or does no harm."""


@dataclass(frozen=True, slots=True)
class Ailment:
    """One thing that can be wrong."""

    code: str
    """Its name in JSON; it does not change between releases."""

    severity: Severity
    """How bad it is."""

    meaning: str
    """What it means for whoever runs the application."""

    command: str | None
    """What mends it; ``None`` when no command does, and the meaning says what to do."""


_RESTORE = "statestores restore {root} --store {store} --partition {partition}{local}"

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_ALL = (
    Ailment(
        "no-root",
        _ERROR,
        "there is no state root here, so no store can be read; check the path. An application that "
        "is started on it makes an empty one",
        None,
    ),
    Ailment(
        "single-store",
        _NOTE,
        "this is one store, opened by its directory and not through a state root: its rows and "
        "files were looked at, and nothing else can be. Without a changelog nothing restores it; "
        "`open_logged_store` in a state root does",
        None,
    ),
    Ailment(
        "single-store-damaged",
        _ERROR,
        "the store is damaged, and no state root says what it could be restored from; put its "
        "directory back from a backup, or make it anew from its input",
        None,
    ),
    Ailment(
        "root-unreadable",
        _ERROR,
        "statestores.json says what the stores are, and cannot be read; put it back from a backup, "
        "the data beside it is untouched",
        None,
    ),
    Ailment(
        "newer-format",
        _ERROR,
        "a later release has written this, and this one cannot know what it means",
        "pip install --upgrade statestores",
    ),
    Ailment(
        "not-writable",
        _ERROR,
        "the application cannot write here: it will fail when it opens the store or commits",
        "chmod u+rwx {path}",
    ),
    Ailment(
        "disk-full",
        _WARNING,
        "less than a twentieth of the disk is free, and a commit that finds no room fails; see "
        "what takes it, then compact changelogs or remove snapshots",
        "statestores du {root}",
    ),
    Ailment(
        "store-damaged",
        _ERROR,
        "what the root says of the store contradicts its files, or its last staged write cannot be "
        "read; put the named file back from a backup",
        None,
    ),
    Ailment(
        "task-damaged",
        _ERROR,
        "what a task keeps beside its stores cannot be read, and the task cannot be opened: the "
        "record of a commit that it has died in, or the names of the stores that it has written; "
        "put what is named back from a backup. Without one, move it away: of a record, what the "
        "changelogs do not have yet of that commit is lost",
        None,
    ),
    Ailment(
        "topology-damaged",
        _ERROR,
        "what a topology has noted of itself cannot be read, and it is not run without it: nobody "
        "could tell what an upgrade would lose; put @tasks/topology.json back from a backup",
        None,
    ),
    Ailment(
        "operator-damaged",
        _ERROR,
        "the last micro-batch of a query's stateful operator cannot be read, or stores lack what "
        "it names, and the query does not go on; put what is named back from a backup, or begin "
        "with a new state and a new checkpoint",
        None,
    ),
    Ailment(
        "changelog-damaged",
        _ERROR,
        "changes from the damage on cannot be read, by a restore neither; stop the application "
        "before it makes engines from it, and put the segments back from a backup. What the newest "
        "snapshot has, `statestores export SNAPSHOT FILE` saves",
        None,
    ),
    Ailment(
        "changelog-gone",
        _ERROR,
        "the partition was begun, and its directory or the changelog in it is not there; it is not "
        "opened, so that nothing begins anew, empty. Mount the disk that has it, or put it back "
        "from a backup. A copy of the directory outside of the state root shows what its engine "
        "still has",
        None,
    ),
    Ailment(
        "changelog-behind",
        _ERROR,
        "a write to all partitions has left the changelog further than it ends: it was put back "
        "from an older copy, or has lost its end. It is neither read nor written to, so that what "
        "it lacks is not missed later; put the newest copy back from a backup, or all of the state "
        "root as it was at one moment",
        None,
    ),
    Ailment(
        "changelog-unreadable",
        _ERROR,
        "the disk or its server does not answer, or this user may not look there; nothing says "
        "that anything is lost. Mount the disk, check the path and the rights, and ask again",
        None,
    ),
    Ailment(
        "snapshot-damaged",
        _ERROR,
        "a restore passes it over and reads an older one, or the whole changelog; without either "
        "it fails. The command writes another one in its place",
        "rm -r {path} && statestores snapshot {root} --store {store}",
    ),
    Ailment(
        "native-snapshot-damaged",
        _WARNING,
        "a restore reads the snapshot's columns instead, which takes longer. The command writes "
        "the engine's files anew",
        "rm -r {path} && statestores snapshot {root} --store {store} --format native",
    ),
    Ailment(
        "object-snapshot-damaged",
        _WARNING,
        "restores and reads pass it over, for an older one or for the changelog, which has "
        "everything. The command writes another one and removes this one",
        "statestores snapshot {root} --store {store} --keep 2",
    ),
    Ailment(
        "snapshot-alone-damaged",
        _ERROR,
        "the changelog no longer has what is in this snapshot, and no other has it: a restore will "
        "fail; put it back from a backup, and let the engine run, if there is one",
        None,
    ),
    Ailment(
        "engine-damaged",
        _ERROR,
        "the engine cannot be opened; changelog and snapshots have everything, so it is set aside "
        "and made anew",
        f"{_RESTORE} --rebuild",
    ),
    Ailment(
        "engine-wrong",
        _ERROR,
        "the engine opens, and its rows are not those that its changelog gives, which is right; it "
        "is kept beside a new one",
        f"mv {{path}} {{path}}.damaged-kept && {_RESTORE}",
    ),
    Ailment(
        "engine-file-damaged",
        _ERROR,
        "engine.json names the engine's backend, and cannot be read; changelog and snapshots have "
        "everything, so the engine is kept and made anew, by the backend of the store's other "
        "engines, unless the command is given --backend",
        f"mv {{path}}/engine {{path}}/engine.damaged-kept && rm {{path}}/engine.json && {_RESTORE}",
    ),
    Ailment(
        "engine-alone-damaged",
        _ERROR,
        "the engine is damaged, and changelog and snapshots do not have all that it had; put it "
        "back from a backup",
        None,
    ),
    Ailment(
        "engine-ahead",
        _ERROR,
        "the engine has commits that its changelog has lost, or that was another one; put the "
        "changelog back from a backup, for a restore would drop what only the engine has",
        None,
    ),
    Ailment(
        "backend-missing",
        _ERROR,
        "the engine's backend cannot be used on this machine",
        "pip install 'statestores[{backend}]'",
    ),
    Ailment(
        "misplaced-keys",
        _ERROR,
        "reads of one key look for it in another partition, and miss it; scans show it. The "
        "command puts every key where it is looked for, while the application is stopped",
        "statestores export {root}/{store} {store}.arrow && "
        "statestores import {store}.arrow {root} --store {store} --replace",
    ),
    Ailment(
        "unfinished-write",
        _WARNING,
        "a write to several partitions is committed and not yet in their changelogs; readers count "
        "it, and the next writer, or the command, finishes it",
        "statestores restore {root} --store {store}{local}",
    ),
    Ailment(
        "reshard-left-over",
        _WARNING,
        "a reshard has died, or kept the old partitions, or runs right now; the store is whole, "
        "and this only takes room. The command moves nothing, and removes it when no reshard runs",
        "statestores reshard {root} {store} --partitions {partitions}",
    ),
    Ailment(
        "recorded-commit",
        _NOTE,
        "a process has died while it committed to several stores, or commits right now; the next "
        "opening of the task, or start of the query, carries out what is missing, and until then "
        "other writes to these stores and reshards are refused",
        None,
    ),
    Ailment(
        "half-restored",
        _WARNING,
        "a restore has died half-way; the next opening goes on with it, and so does the command",
        _RESTORE,
    ),
    Ailment(
        "half-truncated",
        _NOTE,
        "a truncation has died half-way; the next opening completes it, and so does the command",
        _RESTORE,
    ),
    Ailment(
        "long-restore",
        _WARNING,
        "whoever loses the engine waits for all changes since the newest snapshot; a snapshot "
        "makes that short, while the application is stopped, or it writes one itself",
        "statestores snapshot {root} --store {store}",
    ),
    Ailment(
        "clock-ahead",
        _WARNING,
        "files were written in the future: the clock of this machine is behind, or was ahead. What "
        "goes by the clock, such as times to live, is wrong meanwhile; set the clock",
        None,
    ),
    Ailment(
        "engine-behind",
        _NOTE,
        "the engine is behind its changelog, as after a crash; the next opening brings it up, and "
        "the command does so now",
        _RESTORE,
    ),
    Ailment(
        "torn-tail",
        _NOTE,
        "an append has died half-way, or runs right now; it was never acknowledged, and the next "
        "writer cuts it",
        _RESTORE,
    ),
    Ailment(
        "in-use",
        _NOTE,
        "somebody has the engine open, so its rows were not checked; check again when it is closed",
        "statestores verify {root} --store {store}{local}",
    ),
    Ailment(
        "engine-kept",
        _NOTE,
        "a damaged engine was set aside, for whoever must find out what happened; remove it then",
        "rm -r {path}",
    ),
    Ailment(
        "orphan",
        _NOTE,
        "no store of the root claims this; look at it before you remove it",
        "statestores orphans {root}{local}",
    ),
    Ailment(
        "left-over",
        _NOTE,
        "a process has died while it replaced a file; what it replaced is whole, and this is not "
        "read",
        "rm {path}",
    ),
    Ailment(
        "no-stores",
        _NOTE,
        "the root has no stores yet: no application has opened one in it",
        None,
    ),
)

AILMENTS = {ailment.code: ailment for ailment in _ALL}
"""By code."""
