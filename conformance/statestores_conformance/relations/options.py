"""Relations between engines: opened with other options, and beside the memory engine.

An author whose engine has options gives one more fixture::

    @pytest.fixture
    def option_sets(self) -> OptionSets:
        small = functools.partial(LMDBEngine.open, options={"map_bytes": 2**20})
        return {"a small map": small}
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from statestores.registry import load_backend
from statestores.spi import Engine
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.relations import ALL_KINDS, Kind, Subject, Trial
from statestores_conformance.subjects.engines import OpenEngine, pairs_of
from statestores_conformance.subjects.openers import StoreOnEngine

OptionSets: TypeAlias = Mapping[str, OpenEngine]
"""Openers of the same engine with other options, by what is different about them."""

_KINDS = pytest.mark.parametrize("kind", ALL_KINDS.values(), ids=ALL_KINDS)


class OptionRelationTests:
    """No option, and no engine, changes what is stored or what is read."""

    @pytest.mark.spec("ENG-7", "KVS-7", "VRS-10", "VRS-12")
    @_KINDS
    def test_options_change_no_answer(
        self, open_engine: OpenEngine, option_sets: OptionSets, kind: Kind, tmp_path: Path
    ) -> None:
        """Stores over the plain engine, and with each set of options, give the same answers."""
        skip_unless_promised("option sets", made=bool(option_sets))

        def relation(trial: Trial) -> None:
            usual, other = trial.open("usual"), trial.open("other", opener="open_other")
            for batch in trial.batches():
                for store in (usual, other):
                    trial.write(store, batch)
                    trial.commit(store)
            trial.agree(other, usual)
            if subject.persistent:
                # The same files, opened with the other options, and vice versa.
                for store in (usual, other):
                    trial.script.do(f"{store}.close")
                crossed = trial.open("other"), trial.open("usual", opener="open_other")
                trial.agree(*crossed)

        for opener in option_sets.values():
            subject = Subject(kind, StoreOnEngine(open_engine), tmp_path)
            subject.openers["open_other"] = StoreOnEngine(opener)
            subject.holds(relation)

    @pytest.mark.spec("ENG-4", "ENG-6", "ENG-7")
    @_KINDS
    def test_rows_are_those_of_the_memory_engine(
        self, open_engine: OpenEngine, kind: Kind, tmp_path: Path
    ) -> None:
        """The same commits leave the same rows in both engines, byte by byte, in the same order.

        This looks below the reads of a store: none of them would show what one engine keeps in
        excess.
        """
        watched, reference = _Watching(open_engine), _Watching(load_backend("memory").open)

        def relation(trial: Trial) -> None:
            stores = trial.open("tried"), trial.open("reference", opener="open_reference")
            for batch in trial.batches():
                for store in stores:
                    trial.write(store, batch)
                    trial.commit(store)

                assert pairs_of(watched.engine) == pairs_of(reference.engine)

        subject = Subject(kind, StoreOnEngine(watched), tmp_path)
        subject.openers["open_reference"] = StoreOnEngine(reference)
        subject.holds(relation)


class _Watching:
    """An opener of engines that remembers the last one, to look at its rows."""

    def __init__(self, open_engine: Callable[[Path], Engine]) -> None:
        self._open_engine = open_engine
        self.engine: Engine

    def __call__(self, path: Path) -> Engine:
        """Open the engine at *path*."""
        self.engine = self._open_engine(path)
        return self.engine
