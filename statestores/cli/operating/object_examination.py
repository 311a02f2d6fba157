"""Looking at a state root in an object store for what can be wrong with it. Nothing is changed."""

from collections.abc import Iterator
from dataclasses import dataclass

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.cli.operating.beside_stores import symptoms_beside_stores
from statestores.cli.operating.symptoms import Diagnosis, Symptom
from statestores.errors import StateStoreError, StoreNotFoundError, UnsupportedFormatError
from statestores.reading.partition_places import ObjectPartition, shown_place, snapshots_of
from statestores.state_root import StateRoot
from statestores.verification import Finding, Status, check_object_root

_CODES = {
    "store": "store-damaged",
    "changelog": "changelog-damaged",
    "snapshot": "object-snapshot-damaged",
    "content": "object-snapshot-damaged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectExamination:
    """How closely to look."""

    url: str
    """The state root."""

    with_rows: bool = True
    """Whether every row is read, as `verify` does."""

    changes: int = 100_000
    """How many changes since the newest snapshot are too many."""

    progress: ProgressCallback | None = None
    """Told of the rows that are read."""

    def symptoms(self) -> Iterator[Symptom]:
        """Yield what is wrong, as it is found; nothing that is wrong is raised."""
        wrong = Diagnosis(self.url, None)
        try:
            root = StateRoot.open(self.url)
        except UnsupportedFormatError as error:
            yield wrong("newer-format", self.url, str(error))
            return
        except StoreNotFoundError as error:
            yield wrong("no-root", self.url, str(error))
            return
        except StateStoreError as error:
            yield wrong("root-unreadable", self.url, str(error))
            return
        if not root.stores:
            yield wrong("no-stores", self.url, "it is empty")
        for name in sorted(root.stores):
            yield from self._store(wrong, root, name)
        yield from symptoms_beside_stores(wrong, root)

    def _store(self, wrong: Diagnosis, root: StateRoot, name: str) -> Iterator[Symptom]:
        """Look at one store and its partitions."""
        for number in range(root.store(name).partitions):
            place = ObjectPartition(root.object_log(name), number)
            try:
                end = place.log.view([number]).parts[number].end
                listed = snapshots_of(place).listed()
            except UnsupportedFormatError as error:
                yield wrong("newer-format", shown_place(place), str(error), store=name)
                return
            except StateStoreError as error:
                yield wrong("store-damaged", shown_place(place), str(error), store=name)
                return
            since = end - (listed[-1].offset + 1 if listed else 0)
            if since > self.changes:
                words = f"{since:,} changes since the newest snapshot"
                yield wrong("long-restore", shown_place(place), words, store=name)
        if self.with_rows:
            for finding in check_object_root(root, [name], meter=Meter(self.progress)):
                yield from _of_finding(wrong, finding, name)


def _of_finding(wrong: Diagnosis, finding: Finding, store: str) -> Iterator[Symptom]:
    """Yield the symptom that *finding* of a verification is, if it is one."""
    if finding.status is Status.MISPLACED:
        yield wrong("misplaced-keys", finding.path, finding.detail, store=store)
    elif finding.status is Status.DAMAGED:
        is_newer = isinstance(finding.error, UnsupportedFormatError)
        code = "newer-format" if is_newer else _CODES[finding.check]
        yield wrong(code, finding.path, finding.detail, store=store)
