"""A put, and finding out what has become of it (OBJ-5); the checkpoint, read again (OBJ-7)."""

from dataclasses import dataclass

from statestores.errors import ChangelogCorruptedError, CommitInDoubtError
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.names import Names
from statestores.object_log.requests import Create, Read, Steps
from statestores.storage import Found, Outcome, Unchanged
from statestores.text.advice import STORE_FINDS_OUT

ATTEMPTS = 8
"""Puts of one object whose outcome stays unknown, before its writer gives up."""


@dataclass(slots=True)
class Known:
    """The last checkpoint that somebody has read; its tag makes reading it again cheap."""

    checkpoint: Checkpoint
    """The checkpoint."""

    tag: str
    """What the store tells it from others by."""


def settle(names: Names, name: str, data: bytes, *, asked: bool = False) -> Steps[bool]:
    """Create *name* with *data*, and return whether that is what is there.

    With *asked* it was tried before, and another answer than "done" has come.

    Whoever puts *data* must be the only one who has these very bytes: then what is found says
    whose it is, however often and late the put was carried out.

    Raises:
        CommitInDoubtError: It cannot be found out now, and the put may still happen.
    """
    for attempt in range(ATTEMPTS):
        is_known = asked and attempt == 0
        if not is_known and (yield Create(name, data)) is Outcome.DONE:
            return True
        found: Found | None = yield Read(name)
        if found is not None:
            return found.data == data
    raise CommitInDoubtError(
        f"nobody can tell whether {names.shown(name)} was written: the object store does not "
        f"answer; {STORE_FINDS_OUT}"
    )


def read_checkpoint(names: Names, known: Known | None = None) -> Steps[Known]:
    """Return the checkpoint as it is now; *known* itself, brought up to date, if there is one.

    Raises:
        ChangelogCorruptedError: There is none, or it is damaged.
        UnsupportedFormatError: It is of a later release.
    """
    name = names.checkpoint
    found: Found | Unchanged | None = yield Read(name, None if known is None else known.tag)
    if isinstance(found, Unchanged) and known is not None:
        return known
    if not isinstance(found, Found):
        raise ChangelogCorruptedError(
            f"the checkpoint {names.shown(name)} is gone, and without it nobody can tell what "
            "counts; put it back, if the bucket keeps earlier versions of objects"
        )
    checkpoint = Checkpoint.unpack(found.data, names.shown(name))
    if known is None:
        return Known(checkpoint, found.tag)
    if checkpoint.log != known.checkpoint.log:
        raise ChangelogCorruptedError(
            f"the log at {names.shown(name)} is another one than before: it was removed and made "
            "anew while it was in use"
        )
    known.checkpoint, known.tag = checkpoint, found.tag
    return known
