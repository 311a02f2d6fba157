"""Every vector is a test, named by its case."""

from typing import Any

import pytest

from statestores_conformance.differences import DIFFERENCES, as_decided_here
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.stores import KeyValueStores, VersionedStores
from statestores_conformance.vectors import (
    Case,
    KeyValueCaseRunner,
    VersionedCaseRunner,
    load_cases,
)


def parameters(*names: str) -> list[Any]:
    """Return the cases of the files *names* as parameters; what is not run is skipped by name."""
    cases = []
    for name in names:
        for case in load_cases(name):
            difference = DIFFERENCES.get(case.id)
            if difference is None:
                cases.append(pytest.param(case, id=case.id))
                continue
            marks = [pytest.mark.spec(difference.requirement)]
            if not difference.run:
                marks.append(pytest.mark.skip(reason=f"{case.id}: {difference.reason}"))
            cases.append(pytest.param(as_decided_here(case), id=case.id, marks=marks))
    return cases


class KeyValueVectorTests:
    """The cases of the kind ``kv``."""

    @pytest.mark.spec("KVS-1", "KVS-2", "KVS-3", "KVS-4", "KVS-5", "KVS-7", "KVS-8", "KVS-9")
    @pytest.mark.parametrize("case", parameters("kv"))
    def test_vector(self, key_value_stores: KeyValueStores, case: Case) -> None:
        """The case holds while its writes are pending, and when each is committed at once."""
        for commit_each in (False, True):
            store = key_value_stores.open(f"commit-each-{commit_each}").store
            KeyValueCaseRunner(store, commit_each=commit_each).run(case)


class VersionedVectorTests:
    """The cases of the kind ``versioned``, and our own."""

    @pytest.mark.spec("VRS-1", "VRS-2", "VRS-4", "VRS-5", "VRS-6", "VRS-7", "VRS-8", "VRS-9")
    @pytest.mark.spec("VRS-10", "VRS-11", "VRS-22", "COM-17")
    @pytest.mark.parametrize("case", parameters("versioned", "statestores"))
    def test_vector(self, versioned_stores: VersionedStores, case: Case) -> None:
        """The case holds while its writes are pending, and when each is committed at once."""
        retention_ms = case.config["history_retention_ms"]
        for commit_each in (False, True):
            name = f"commit-each-{commit_each}"

            def reopen(name: str = name) -> Any:
                return versioned_stores.open(name, history_retention_ms=retention_ms).store

            store = reopen()
            if any(step["op"] == "reopen" for step in case.steps):
                skip_unless_promised("persistent", made=store.persistent)
            VersionedCaseRunner(store, commit_each=commit_each, reopen=reopen).run(case)
