"""What ships as data is what ``spec/`` says, and the support matrix is what the reports say."""

import subprocess
import sys
from pathlib import Path

import pytest
import write_support_matrix

from statestores_conformance.levels import LEVEL_NAMES
from statestores_conformance.report import from_json
from statestores_conformance.report.badge import to_badge
from statestores_conformance.requirements import load_requirements, spec_version

_ROOT = Path(__file__).parents[2]
_REPORTS = sorted((_ROOT / "docs" / "conformance").glob("*.json"))


def test_generated_files_are_up_to_date() -> None:
    """Written again from their sources, they are the same."""
    assert write_support_matrix.PAGE.read_text("utf-8") == write_support_matrix.content()

    # In a process of its own, since it collects the suite.
    result = subprocess.run(
        [sys.executable, str(_ROOT / "tools" / "write_requirements.py"), "--check"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_each_requirement_has_its_facts() -> None:
    """Version, number, obligation, chapter, a sentence, and a level where the suite cites it."""
    rows = load_requirements()

    assert spec_version() == 1
    assert len(rows) > 200
    assert {row.obligation for row in rows} <= {"MUST", "SHOULD", "MAY", "WITHDRAWN"}
    assert {row.level for row in rows} == {None, *LEVEL_NAMES}
    assert [row.id for row in rows if not row.text.strip()] == []
    assert {row.chapter for row in rows} == {
        path.name for path in (_ROOT / "spec").glob("[0-9]*.md") if "differences" not in path.name
    }


def test_an_engine_that_is_slow_at_the_disk_is_a_matter_of_the_suite() -> None:
    """ROF-12 is a SHOULD, and proved like the others."""
    (row,) = [row for row in load_requirements() if row.id == "ROF-12"]

    assert [row.obligation, row.level] == ["SHOULD", "concurrent"]


@pytest.mark.parametrize("path", _REPORTS, ids=lambda path: path.stem)
def test_published_reports_can_be_read(path: Path) -> None:
    """Each is of a built-in backend that conforms, and has the badge that it gives."""
    report = from_json(path.read_text("utf-8"))

    assert report.backend == path.stem
    assert report.conforms
    assert path.with_suffix(".svg").read_text("utf-8") == to_badge(report)


def test_every_built_in_engine_has_a_published_report() -> None:
    """None is missing from the matrix."""
    assert [path.stem for path in _REPORTS] == ["leveldb", "memory", "rocksdb", "sqlite"]
