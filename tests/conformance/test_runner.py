"""The runner: backends that die, hang or lie are reported, and the run goes on without them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_suite import forked_children

from statestores.errors import InvalidArgumentError, MissingDriverError, UnknownBackendError
from statestores_conformance.report import Report, Status
from statestores_conformance.runner import Progress, run_conformance

_TIME_LIMIT_S = 30.0
"""Long for every test but the one that hangs."""

_MODEL = "ENG-18"
"""A requirement that the state machine of engines cites, and few other tests."""


@pytest.fixture(autouse=True, scope="module")
def _bad_backends_can_be_imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fork the children, let them import `bad_backends` and write what they find elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "kit"))
        patch.setenv("STATESTORES_REPRODUCTION_DIR", str(tmp_path_factory.mktemp("reproductions")))
        with forked_children(patch):
            yield


@pytest.fixture(scope="module")
def troubled() -> Report:
    """Prove an engine that crashes, leaves, hangs and prints, at its lowest level."""
    return run_conformance(
        "bad_backends:TroubledEngine",
        level="engine",
        profile="quick",
        seed=1,
        children=1,
        test_time_limit_s=_TIME_LIMIT_S,
    )


def _failures(report: Report, words: str) -> list[str]:
    """Return the tests that failed for a reason with *words* in it."""
    return [failure.test for failure in report.failures if words in failure.reason]


def test_a_crash_is_reported_with_its_step(troubled: Report) -> None:
    """The test that the interpreter died in, where it was, and what it would have proved."""
    crashes = [failure for failure in troubled.failures if "SIGSEGV" in failure.reason]

    assert crashes
    assert "ENG-30" in {name for failure in crashes for name in failure.requirements}
    assert all("call, " in failure.step for failure in crashes)
    assert all("in approximate_num_keys" in failure.reason for failure in crashes)


def test_a_hang_is_reported_with_its_step(troubled: Report) -> None:
    """It timed out, which disproves nothing: once it has said where it was, it is killed."""
    (hanging,) = troubled.timeouts

    assert "was killed" in hanging.reason
    assert {row.status for row in troubled.requirements if row.id in hanging.requirements} <= {
        Status.TIMED_OUT,
        Status.FAILED,
    }

    assert "test_a_checkpoint_that_is_not_promised_is_refused" in hanging.test
    assert hanging.requirements == ("ENG-12",)
    assert "in checkpoint" in hanging.step


def test_a_process_that_ends_itself_is_reported(troubled: Report) -> None:
    """The status is that of the backend's `os._exit`."""
    assert all("TestCapabilities" in test for test in _failures(troubled, "exit status 3"))
    assert _failures(troubled, "exit status 3")


def test_the_run_goes_on_after_each_of_them(troubled: Report) -> None:
    """Nothing else failed or was left out, whatever was printed."""
    proved = {row.id for row in troubled.with_status(Status.PROVED)}
    lost = _failures(troubled, "the process")

    assert troubled.problems == ()
    assert len(lost) == len(troubled.failures)
    assert troubled.count(Status.NOT_RUN) <= 2
    assert {"ENG-5", "ENG-6", "ENG-7", "ENG-9", "ENG-20"} <= proved
    assert [troubled.level, troubled.levels[0].status] == [None, Status.FAILED]


def test_wrong_types_are_said_in_the_reason() -> None:
    """``str`` for ``bytes`` fails what it breaks, with both values in one line."""
    report = run_conformance(
        "bad_backends:TextEngine", level="engine", seed=1, children=1, max_failures=16
    )
    reasons = [failure.reason for failure in report.failures]

    assert any("== b'" in reason for reason in reasons)
    assert all("\n" not in reason for reason in reasons)
    assert "ENG-2" in {row.id for row in report.with_status(Status.FAILED)}
    assert report.count(Status.NOT_RUN) > 0  # it was told to stop


def test_some_requirements_are_run_alone() -> None:
    """Their tests alone, and the report judges no level by them."""
    report = run_conformance("memory", requirements=["ENG-3", "ENG-21"], seed=1, children=1)

    assert report.holds
    assert not report.conforms
    assert report.selection == "the tests of ENG-21, ENG-3"
    assert {"ENG-3", "ENG-21"} <= {row.id for row in report.with_status(Status.PROVED)}
    assert report.tests < 20
    assert {level.status for level in report.levels} == {Status.NOT_RUN}


@pytest.mark.long
def test_what_did_not_pass_last_time_is_run_alone() -> None:
    """The same tests, until they pass; a report without failures leaves nothing to run."""
    last = run_conformance("bad_backends:TextEngine", requirements=["ENG-2"], seed=1, children=1)
    again = run_conformance("bad_backends:TextEngine", since_last=last, seed=1, children=1)
    mended = run_conformance("memory", since_last=last, seed=1, children=1)

    assert again.tests == len(again.failures) == len(last.failures) > 0
    assert mended.holds
    assert mended.tests == again.tests
    with pytest.raises(InvalidArgumentError, match="no test failed"):
        run_conformance("memory", since_last=mended)


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        ("RaisingEngine", "opening the engine raised RuntimeError: no server listens"),
        ("LeavingEngine", "the process ended by itself with exit status 7 before the first test"),
        ("NamelessEngine", "opening the engine gave {}, expected an Engine"),
    ],
)
def test_an_engine_that_cannot_be_opened_is_one_failure(engine: str, sentence: str) -> None:
    """Its reason is the sentence; nothing is run that could only fail alike."""
    report = run_conformance(f"bad_backends:{engine}", children=1)

    assert [failure.reason for failure in report.failures] == [sentence]
    assert [row.id for row in report.with_status(Status.FAILED)] == ["ENG-17"]
    assert not report.conforms


@pytest.mark.parametrize(
    ("backend", "error", "words"),
    [
        ("nothing", UnknownBackendError, "known: "),
        ("bad_backends:Nothing", UnknownBackendError, "does not exist"),
        ("needy_backend:Engine", MissingDriverError, "needs the package 'no_such_driver'"),
    ],
)
def test_what_cannot_be_loaded_is_an_error(
    backend: str, error: type[Exception], words: str
) -> None:
    """There is nothing to report on: the error of the registry, with its sentence."""
    with pytest.raises(error, match=words):
        run_conformance(backend, children=1)


def test_levels_and_profiles_that_do_not_exist_are_refused() -> None:
    """The message lists those that there are."""
    with pytest.raises(InvalidArgumentError, match="crash-proof"):
        run_conformance("memory", level="perfect")
    with pytest.raises(InvalidArgumentError, match="soak"):
        run_conformance("memory", profile="lazy")


@pytest.mark.long
def test_a_store_at_door_two_is_proved_by_its_function() -> None:
    """The kinds that the function refuses are left out; there is no engine level to fail."""
    steps: list[Progress] = []
    report = run_conformance(
        "bad_backends:open_key_value_store",
        level="store",
        profile="quick",
        seed=1,
        children=1,
        on_progress=steps.append,
    )

    assert report.failures == ()
    assert [report.level, report.conforms] == ["store", True]
    # What commits remove of other kinds was said to be proved of this one.
    series = {row.id[:3] for row in report.requirements}
    assert series >= {"COM", "KVS", "ROF"}
    assert series.isdisjoint({"VRS", "WIN", "SES", "TKV", "TTL"})
    assert steps[-1].finished == steps[-1].tests == report.tests


@pytest.mark.spec("TTL-5", "TTL-6")
def test_a_store_at_door_two_is_asked_about_its_time_to_live() -> None:
    """A store with timestamps was opened with a clock, which the function need not take.

    So each of its tests failed, and none about expiry was run at all.
    """
    asked = ["TKV-2", "TTL-4", "TTL-5", "TTL-6"]
    sound, hasty = (
        run_conformance(f"stamped_stores:{name}", requirements=asked, seed=1, children=1)
        for name in ("open_store", "open_hasty_store")
    )

    assert sound.failures == ()
    assert {"TKV-2", "TTL-5", "TTL-6"} <= {row.id for row in sound.with_status(Status.PROVED)}
    assert "TTL-4" in {row.id for row in sound.with_status(Status.NOT_PROMISED)}
    assert "TTL-6" in [row.id for row in hasty.with_status(Status.FAILED)]


@pytest.mark.long
def test_the_same_seed_finds_the_same_case() -> None:
    """A failure of a state machine can be had again from the seed in the report."""
    first, second = (
        run_conformance("bad_backends:ShiftyEngine", requirements=[_MODEL], seed=seed, children=1)
        for seed in (7, 7)
    )
    found = [
        [failure.reason for failure in report.failures if "TestModel" in failure.test]
        for report in (first, second)
    ]

    assert first.seed == second.seed == 7
    assert found[0] == found[1] != []
