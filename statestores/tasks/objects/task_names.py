"""The names of a task's objects, below the root of its storage (OBJ-2).

    @tasks/<task>/records/<store>/<log>/<grant>/<number>   a commit of several stores
    @tasks/<task>/written/<store>/<log>                    a store that the task has written

A record is named by the entry that makes it count: that of the first of its stores. Nobody but the
owner under that grant makes such an entry, and that owner makes it once.
"""

from dataclasses import dataclass

from statestores.root_document import TASKS_DIRECTORY

_DIGITS = 20


@dataclass(frozen=True, slots=True, order=True)
class RecordName:
    """Which entry a record is of."""

    store: str
    """The store that commits first."""

    log: str
    """The id of its log."""

    grant: int
    """The grant under which it is appended."""

    number: int
    """The number of the entry."""


@dataclass(frozen=True, slots=True)
class TaskNames:
    """The names of one task's objects."""

    task: str
    """The task, such as ``0_3``."""

    url: str = ""
    """Where they lie, for messages."""

    @property
    def all(self) -> str:
        """What all of them begin with."""
        return f"{TASKS_DIRECTORY}/{self.task}/"

    def record(self, record: RecordName) -> str:
        """Return the name of the object of *record*."""
        entry = f"{record.grant:0{_DIGITS}d}/{record.number:0{_DIGITS}d}"
        return f"{self.all}records/{record.store}/{record.log}/{entry}"

    def written(self, store: str, log: str) -> str:
        """Return the name of the note that the task has written *store*, whose log has that id."""
        return f"{self.all}written/{store}/{log}"

    def shown(self, name: str) -> str:
        """Return *name* as messages show it."""
        return f"{self.url}/{name}"

    def record_of(self, name: str) -> RecordName | None:
        """Return which record the object *name* is; ``None`` if it is none."""
        match name.removeprefix(self.all).split("/"):
            case ["records", store, log, grant, number] if _is_number(grant) and _is_number(number):
                return RecordName(store, log, int(grant), int(number))
        return None

    def written_of(self, name: str) -> tuple[str, str] | None:
        """Return which store, and which log of it, the note *name* is of; ``None`` if of none."""
        match name.removeprefix(self.all).split("/"):
            case ["written", store, log]:
                return store, log
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
