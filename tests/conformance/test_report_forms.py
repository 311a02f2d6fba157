"""Reports as files: every form has what was found, and nothing in it can break the form."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from statestores.errors import InvalidOptionError, UnsupportedFormatError
from statestores_conformance.levels import LEVEL_NAMES
from statestores_conformance.report import (
    FORMS,
    Failure,
    LevelResult,
    Report,
    RequirementResult,
    Status,
    from_json,
    to_json,
    write_report,
)
from statestores_conformance.report.badge import to_badge
from statestores_conformance.report.matrix import to_matrix
from statestores_conformance.report.summary import to_text

_NASTY = "got <script>alert(1)</script> | `x` & ]]> \x00 \x1b[2J \ud800"


def _row(name: str, status: Status, reason: str = "", *failures: str) -> RequirementResult:
    return RequirementResult(
        id=name,
        obligation="MUST",
        level="engine",
        text=f"It holds `{name}`.",
        status=status,
        reason=reason,
        passed=status is Status.PROVED,
        failures=failures,
    )


@pytest.fixture
def conforming() -> Report:
    """Give a report of a backend that keeps everything that it promises."""
    return Report(
        backend="good",
        level="store",
        stopped_by="durable: does not promise persistent",
        levels=tuple(
            LevelResult(
                name=name,
                status=Status.PROVED if place < 2 else Status.NOT_PROMISED,
                reason="" if place < 2 else "does not promise persistent",
            )
            for place, name in enumerate(LEVEL_NAMES)
        ),
        requirements=(
            _row("ENG-2", Status.PROVED),
            _row("ENG-18", Status.NOT_PROMISED, "does not promise persistent"),
        ),
        failures=(),
        capabilities={"persistent": False},
        options={"size": "1"},
        asked_level=LEVEL_NAMES[-1],
        profile="quick",
        seed=42,
        seconds=1.5,
        tests=2,
        spec_version=1,
        statestores_version="0",
        python="3",
        platform="Linux",
    )


@pytest.fixture
def failing(conforming: Report) -> Report:
    """Give a report of a backend whose failure has every nasty character in it."""
    failure = Failure(
        test=f"TestX::test_y[{_NASTY}]",
        level="engine",
        requirements=("ENG-2",),
        step="call",
        reason=_NASTY,
        detail=_NASTY,
    )
    return replace(
        conforming,
        backend="mod:<Bad>",
        level=None,
        levels=(
            LevelResult(name="engine", status=Status.FAILED, reason="failed: ENG-2"),
            *conforming.levels[1:],
        ),
        requirements=(_row("ENG-2", Status.FAILED, _NASTY, failure.test),),
        failures=(failure,),
        problems=(_NASTY,),
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)


def test_json_round_trips(conforming: Report, failing: Report) -> None:
    """What was written is read again, field for field."""
    assert [from_json(to_json(report)) for report in (conforming, failing)] == [conforming, failing]


def test_json_says_its_version_and_the_verdict(conforming: Report, failing: Report) -> None:
    """A program needs no knowledge of levels to act on it."""
    contents = [json.loads(to_json(report)) for report in (conforming, failing)]

    assert [content["format_version"] for content in contents] == [1, 1]
    assert [content["conforms"] for content in contents] == [True, False]


def test_json_of_another_version_is_refused(conforming: Report) -> None:
    """Nothing is guessed; the message says what to do."""
    text = to_json(conforming).replace('"format_version": 1', '"format_version": 9')
    with pytest.raises(UnsupportedFormatError, match="9, expected 1; run the suite again"):
        from_json(text)


@pytest.mark.parametrize("extension", FORMS)
def test_every_form_is_written_by_its_extension(
    extension: str, conforming: Report, tmp_path: Path
) -> None:
    """Directories are made, and what is there is replaced."""
    path = tmp_path / "new" / f"report{extension}"
    write_report(conforming, path)
    write_report(conforming, path)

    assert path.read_text("utf-8") == FORMS[extension](conforming)
    assert "store" in path.read_text("utf-8")


@pytest.mark.parametrize("extension", FORMS)
def test_every_form_can_say_everything(extension: str, failing: Report, tmp_path: Path) -> None:
    """Also what is no UTF-8, when a failure was made of it."""
    write_report(failing, tmp_path / f"report{extension}")

    assert (tmp_path / f"report{extension}").read_bytes().decode("utf-8")


def test_an_unknown_extension_is_refused(conforming: Report, tmp_path: Path) -> None:
    """The message lists those that there are."""
    with pytest.raises(InvalidOptionError, match=r"\.json, \.md, \.html, \.xml"):
        write_report(conforming, tmp_path / "report.pdf")


def test_nothing_a_backend_says_becomes_html(failing: Report) -> None:
    """What it raises is shown as text."""
    tags = _Tags()
    page = FORMS[".html"](failing)
    tags.feed(page)

    assert page.count("<script") == 1  # the page's own, which filters the rows
    assert "&lt;script&gt;" in page
    assert {"table", "details", "svg"} <= tags.seen


def test_nothing_a_backend_says_breaks_a_table(failing: Report) -> None:
    """Every row of the Markdown has as many cells as its heading."""
    text = FORMS[".md"](failing)
    rows = [line for line in text.splitlines() if line.startswith("| ENG-2 ")]

    assert [row.replace("\\|", "").count("|") for row in rows] == [8]
    assert "<script>" not in text


def test_junit_has_a_case_for_each_requirement(conforming: Report, failing: Report) -> None:
    """Failures, skips and problems are where CI systems look for them."""
    good, bad = (ET.fromstring(FORMS[".xml"](report)) for report in (conforming, failing))  # noqa: S314

    assert [good.get(name) for name in ("tests", "failures", "skipped")] == ["2", "0", "1"]
    assert [bad.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "1"]
    assert [case.get("name", "")[:5] for case in good.iter("testcase")] == ["ENG-2", "ENG-1"]
    assert len(list(bad.iter("failure"))) == len(list(bad.iter("error"))) == 1


def test_the_badge_says_the_level(conforming: Report, failing: Report) -> None:
    """It is well-formed, and red only for what does not conform."""
    good, bad = to_badge(conforming), to_badge(failing)

    assert [ET.fromstring(badge).tag[-3:] for badge in (good, bad)] == ["svg", "svg"]  # noqa: S314
    assert ">store<" in good
    assert ">not conforming<" in bad
    assert "#cf222e" in bad
    assert "#cf222e" not in good


def test_the_summary_says_what_a_user_has_to_know(conforming: Report, failing: Report) -> None:
    """Level, numbers, promises, seed and time; of failures the test, its requirement, the step."""
    good, bad = to_text(conforming), to_text(failing)

    for words in ("good: conforms", "store", "1 proved", "seed 42", "1.5 s", "ENG-18"):
        assert words in good
    for words in ("mod:<Bad>: does not conform", "failed ENG-2", "test_y", "call"):
        assert words in bad


def test_the_matrix_has_a_column_for_each_backend(conforming: Report) -> None:
    """Requirements that all have proved are counted, the others are rows."""
    proved = (_row("ENG-2", Status.PROVED), _row("ENG-18", Status.PROVED))
    other = replace(conforming, backend="other", requirements=proved)
    page = to_matrix([conforming, other])

    assert "|  | good | other |" in page
    assert "| ENG-18 (MUST) | not promised | proved |" in page
    assert "The other 1 requirements are proved of all of them." in page


def test_a_report_of_what_was_not_run_does_not_conform(conforming: Report) -> None:
    """Neither does one with a problem, though no test failed."""
    unrun = (LevelResult(name="engine", status=Status.NOT_RUN), *conforming.levels[1:])

    assert not replace(conforming, levels=unrun).conforms
    assert not replace(conforming, problems=("it hung",)).conforms
    assert conforming.conforms


def test_what_timed_out_disproves_nothing(conforming: Report) -> None:
    """It is neither proved nor failed, and every form says so."""
    hanging = Failure(
        test="TestThreads::test_it",
        level="engine",
        requirements=("ENG-2",),
        step="call",
        reason="late",
    )
    report = replace(
        conforming,
        timeouts=(hanging,),
        requirements=(_row("ENG-2", Status.TIMED_OUT, "late"), *conforming.requirements[1:]),
    )

    assert not report.conforms
    assert from_json(to_json(report)) == report
    assert "not proved to conform: tests timed out" in to_text(report)
    assert 'errors="1"' in FORMS[".xml"](report)
    assert all("timed out" in form(report) for name, form in FORMS.items() if name != ".svg")
    assert "**timed out**" in to_matrix([report])


def test_html_shows_code_and_links_failures_to_requirements(failing: Report) -> None:
    """Backquotes are for Markdown; a requirement that is cited can be clicked."""
    page = FORMS[".html"](failing)

    assert "<code>" in page
    assert "`" not in page.partition("<h2>Requirements</h2>")[2].replace("split", "")
    for failure in failing.failures:
        assert all(f'<a href="#{name}">' in page for name in failure.requirements)
