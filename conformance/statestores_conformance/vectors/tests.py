"""The cases with the answers of the real Kafka Streams, a test for each kind of store."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores_conformance.subjects.stores import KeyValueStores, VersionedStores
from statestores_conformance.vectors.cases import (
    Case,
    KeyValueCaseRunner,
    VersionedCaseRunner,
    load_cases,
)
from statestores_conformance.vectors.differences import DIFFERENCES, as_decided_here


def requirements_of(*names: str) -> list[str]:
    """Return the requirements by which cases of the files *names* differ from Kafka."""
    found = (DIFFERENCES.get(case.id) for name in names for case in load_cases(name))
    return sorted({each.requirement for each in found if each is not None})


def run_cases(run: Callable[[Case], object], *names: str) -> None:
    """Do *run* with each case of the files *names*, as decided here; report all that fail.

    A case that this specification leaves out is left out; `DIFFERENCES` says why.
    """
    failed = []
    for case in (case for name in names for case in load_cases(name)):
        difference = DIFFERENCES.get(case.id)
        if difference is not None and not difference.run:
            continue
        try:
            run(case if difference is None else as_decided_here(case))
        except AssertionError as error:
            failed.append(f"{case.id}: {error}")
        except Exception as error:
            error.add_note(f"in the case {case.id}")
            raise
    assert not failed, "\n".join(failed)


def name_of(case: Case, *, commit_each: bool) -> str:
    """Return the name of a directory for *case*."""
    return f"{case.id.replace('/', '-')}-{commit_each}"


class KeyValueVectorTests:
    """The cases of the kind ``kv``."""

    @pytest.mark.spec("KVS-1", "KVS-2", "KVS-3", "KVS-4", "KVS-5", "KVS-7", "KVS-8", "KVS-9")
    @pytest.mark.spec(*requirements_of("kv"))
    def test_vectors(self, key_value_stores: KeyValueStores) -> None:
        """Each case holds while its writes are pending, and when each is committed immediately."""

        def run(case: Case) -> None:
            for commit_each in (False, True):
                with key_value_stores.open(name_of(case, commit_each=commit_each)).store as store:
                    KeyValueCaseRunner(store, commit_each=commit_each).run(case)

        run_cases(run, "kv")


class VersionedVectorTests:
    """The cases of the kind ``versioned``, and our own."""

    @pytest.mark.spec("VRS-1", "VRS-2", "VRS-4", "VRS-5", "VRS-6", "VRS-7", "VRS-8", "VRS-9")
    @pytest.mark.spec("VRS-10", "VRS-11", "VRS-22", "COM-17")
    @pytest.mark.spec(*requirements_of("versioned", "statestores"))
    def test_vectors(self, versioned_stores: VersionedStores) -> None:
        """Each case holds while its writes are pending, and when each is committed immediately."""

        def run(case: Case) -> None:
            for commit_each in (False, True):
                self._run(versioned_stores, case, commit_each=commit_each)

        run_cases(run, "versioned", "statestores")

    def _run(self, stores: VersionedStores, case: Case, *, commit_each: bool) -> None:
        retention_ms = case.config["history_retention_ms"]

        def reopen() -> Any:
            name = name_of(case, commit_each=commit_each)
            return stores.open(name, history_retention_ms=retention_ms).store

        store = reopen()
        if store.persistent or not any(step["op"] == "reopen" for step in case.steps):
            VersionedCaseRunner(store, commit_each=commit_each, reopen=reopen).run(case)
        store.close()
