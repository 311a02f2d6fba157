"""Trying a relation on workloads that Hypothesis makes up.

Everything goes through a script, so that a relation that does not hold leaves a file that shows it
(see `statestores_conformance.scripts.reproduction`).
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
from hypothesis import given, settings
from hypothesis import strategies as st

from statestores.registry import load_backend
from statestores_conformance.models.running import SHARE, explain, seed_of_run, unhurried
from statestores_conformance.relations.kinds import Alike, Form, Kind, Read, Write
from statestores_conformance.scripts.script import Name, Script
from statestores_conformance.scripts.script_helpers import HELPERS
from statestores_conformance.subjects.openers import StoreOnEngine

Batches: TypeAlias = list[list[Write]]
"""The writes of each commit."""

_CHANCES = st.booleans()

REFERENCE = "open_reference"
"""The name under which a script opens stores over the memory engine."""


_SHARE = {False: 4, True: SHARE[True]}
"""What a trial costs compared with a plain random test. In memory the number of kinds and relations
makes up for the number of trials of each: half those of a state machine."""


class Workload:
    """What is drawn for a kind. Built once: else Hypothesis would build and check it each trial."""

    def __init__(self, kind: Kind) -> None:
        write = kind.writes()
        self.specifications = kind.specifications()
        self.batch = st.lists(write, max_size=6)
        self.batches = st.lists(st.lists(write, min_size=1, max_size=6), min_size=1, max_size=5)


class Trial:
    """One workload, and the stores on which it is performed."""

    def __init__(
        self,
        kind: Kind,
        workload: Workload,
        openers: dict[str, Callable[..., Any]],
        directory: Path,
        data: st.DataObject,
    ) -> None:
        self.kind = kind
        self.data = data
        self.script = Script(**openers, **HELPERS)
        self.specification = data.draw(workload.specifications, label="specification")
        self._workload = workload
        self._directory = directory
        self._opened: list[Name] = []

    def batches(self) -> Batches:
        """Draw the writes of a few commits."""
        return self.data.draw(self._workload.batches, label="commits")

    def batch(self) -> list[Write]:
        """Draw the writes of one commit, which may be none."""
        return self.data.draw(self._workload.batch, label="writes")

    def chance(self, label: str) -> bool:
        """Draw yes or no."""
        return self.data.draw(_CHANCES, label=label)

    def open(self, directory: str, opener: str = "open_store", specification: Any = None) -> Name:
        """Open the store in *directory*, of another *specification* or of its own; name it."""
        path = self._directory / directory
        store = self.script.let("store", opener, path, specification or self.specification)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close what is open."""
        for store in self._opened:
            self.script.value(store).close()

    def write(self, store: Name, writes: Sequence[Write]) -> None:
        """Make *writes*, and commit nothing."""
        for write in writes:
            self.script.do(f"{store}.{write.method}", *write.arguments)

    def write_alike(self, stores: Sequence[Name], writes: Sequence[Write]) -> None:
        """Make *writes* in each of *stores*: each must answer as the first one does."""
        for write in writes:
            first = self.script.let("answer", f"{stores[0]}.{write.method}", *write.arguments)
            for store in stores[1:]:
                self.script.gives(first, f"{store}.{write.method}", *write.arguments)

    def commit(self, store: Name, **options: Any) -> Name:
        """Commit; return the changes that were pending."""
        changes = self.script.let("changes", f"{store}.pending_changes")
        self.script.do(f"{store}.commit", {}, **options)
        return changes

    def live(self, store: Name, batches: Batches) -> list[Name]:
        """Write and commit each of *batches*; return the changes of each commit."""
        log = []
        for batch in batches:
            self.write(store, batch)
            log.append(self.commit(store))
        return log

    def replay(self, store: Name, log: Sequence[Name]) -> None:
        """Replay *log*, and commit."""
        for changes in log:
            self.script.do(f"{store}.replay", changes)
        self.script.do(f"{store}.commit", {})

    def ask(self, store: Name, read: Read, **options: Any) -> Name:
        """Read, and name what came."""
        call = f"{store}.{read.method}"
        if read.form is Form.ITERATOR:
            return self.script.let_list("wanted", call, *read.arguments, **options)
        return self.script.let("wanted", call, *read.arguments, **options)

    def answers(self, expected: object, store: Name, read: Read, **options: Any) -> None:
        """Read, and compare with *expected*: a value or the name of one."""
        call = f"{store}.{read.method}"
        if read.form is Form.ATTRIBUTE:
            self.script.has(expected, call)
        elif read.form is Form.ITERATOR:
            self.script.lists(expected, call, *read.arguments, **options)  # type: ignore[arg-type]  # a list, or the name of one
        else:
            self.script.gives(expected, call, *read.arguments, **options)

    def all_answers(self, store: Name) -> list[tuple[Read, Any]]:
        """Ask everything, and return what came, by name if the script can compare it."""
        return [
            (read, self.attribute(store, read.method))
            if read.form is Form.ATTRIBUTE
            else (read, self.ask(store, read))
            for read in self.kind.reads()
        ]

    def attribute(self, store: Name, attribute: str) -> Name:
        """Read an attribute, and name what came."""
        return self.script.let("wanted", "getattr", store, attribute)

    def agree(self, one: Name, other: Name) -> None:
        """Check that two stores, or a store and a facade, answer every read alike."""
        for read, expected in self.all_answers(other):
            self.answers(expected, one, read)

    def are_alike(self, one: Name, other: Name, alike: Alike) -> None:
        """Check that store *one* answers its read as *other* answers the other."""
        expected = self.ask(other, alike.other)
        if alike.helper is not None:
            expected = self.script.let("wanted", alike.helper, expected, *alike.arguments)
        self.answers(expected, one, alike.read)


class Subject:
    """The stores of one kind that a relation is tried on."""

    def __init__(self, kind: Kind, open_store: Callable[[Path, Any], Any], root: Path) -> None:
        self.kind = kind
        self.openers: dict[str, Callable[..., Any]] = {
            "open_store": open_store,
            REFERENCE: StoreOnEngine(load_backend("memory").open),
        }
        self._root = root
        self._workload = Workload(kind)
        with open_store(root / "probe", kind.probe()) as probe:
            self.persistent: bool = probe.persistent

    def holds(self, relation: Callable[[Trial], None], *, times: int = 1) -> None:
        """Try *relation* as often as the Hypothesis profile allows for its cost.

        *times* as often where few workloads come to what it is about.
        """
        made: list[Trial] = []

        def attempt(data: st.DataObject) -> None:
            directory = Path(tempfile.mkdtemp(dir=self._root))
            trial = Trial(self.kind, self._workload, self.openers, directory, data)
            made[:] = [trial]
            try:
                relation(trial)
            finally:
                trial.close()
                shutil.rmtree(directory)

        seed = seed_of_run()
        examples = times * max(1, settings().max_examples // _SHARE[self.persistent])
        test = settings(unhurried(examples), database=None)(given(st.data())(attempt))
        try:
            (test if seed is None else hypothesis.seed(seed)(test))()
        except Exception as error:
            if made and made[0].script.failed:
                explain(error, made[0].script, relation.__qualname__, self.openers, seed)
            raise
