"""The vectors as files: complete, unchanged, and consistently taken."""

import hashlib
import json
import re
from importlib.resources import files

from statestores_conformance.many_cases import for_each
from statestores_conformance.vectors.cases import load_cases
from statestores_conformance.vectors.differences import DIFFERENCES, as_decided_here

_FROM_KAFKA = {
    "composite": "afa2bf86e690522c1770c26eba35104c646f63d5991dfdf77675d790ee8fd07b",
    "kv": "c10f695fa1b47dd93e3fe5e8eaa0c3d95bc2669cc1a495e4038b2bd726f98a59",
    "session": "3c4e5c47fe0099f5259fbecc9f92516b2e3989dc8993dfad971e520fe7c6deff",
    "versioned": "8ea304beac67f37f3109ee748414f619908a73f1c4889bf198272c33d4960184",
    "window": "f684687d637f2bc22e57315027bf80a17d1c5465650716fca2fa8d52eb7060fe",
}
_ALL = [*_FROM_KAFKA, "statestores"]


@for_each(("name", "digest"), _FROM_KAFKA.items())
def test_the_files_from_kafka_are_not_edited(name: str, digest: str) -> None:
    """Their checksums are those of the files that PROVENANCE.md speaks of."""
    data = (files("statestores_conformance") / "vectors" / f"{name}.json").read_bytes()

    assert hashlib.sha256(data).hexdigest() == digest


def test_every_case_has_its_own_name() -> None:
    """A report that names a case names one case."""
    names = [case.id for name in _ALL for case in load_cases(name)]

    assert len(names) == len(set(names)) == 46 + 100 + 26 + 26 + 49 + 6


def test_every_difference_is_of_a_case_that_there_is() -> None:
    """The table has no entry that means nothing."""
    cases = {case.id: case for name in _ALL for case in load_cases(name)}

    assert set(DIFFERENCES) <= set(cases)
    for name, difference in DIFFERENCES.items():
        changed = as_decided_here(cases[name]) != cases[name]

        assert changed == difference.run
        assert set(difference.expect) | difference.without <= set(range(len(cases[name].steps)))


def test_the_readme_counts_the_cases() -> None:
    """Whoever reads how many cases there are finds as many in the files."""
    text = (files("statestores_conformance") / "vectors" / "README.md").read_text("utf-8")
    rows = re.findall(r"\| `(\w+)\.json` \| (\d+) \|", text)
    counted = {name: int(cases) for name, cases in rows}

    assert counted == {name: len(load_cases(name)) for name in _ALL}


@for_each("name", _ALL)
def test_every_file_says_where_it_comes_from(name: str) -> None:
    """The format is known, the origin is named, and so is the source of each case from Kafka."""
    text = (files("statestores_conformance") / "vectors" / f"{name}.json").read_text("utf-8")
    content = json.loads(text)

    assert content["format"] == 1
    assert content["origin"]
    if name in _FROM_KAFKA:
        assert [
            case["id"]
            for case in content["cases"]
            if "#" not in case["source"] and not case.get("derived")
        ] == []
