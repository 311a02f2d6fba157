"""What runs the tests loses none of them: every one is run once and reported, whatever it does."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

KIT = Path(__file__).parents[1] / "kit"

CONFTEST = """
import os
from pathlib import Path
import pytest
from forked_workers import ForkedWorkers

LOG = Path(os.environ["LOG"])

def note(*words):
    with LOG.open("a") as log:
        print(os.getpid(), *words, file=log)

def choose(scopes, worker):
    return next((each for each in scopes if ("TestFirst" not in each) or worker == 0), None)

def pytest_configure(config):
    workers = ForkedWorkers(3, lambda name: name.rpartition("::")[0], choose)
    config.pluginmanager.register(workers)

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    note("begin", tmp_path_factory.mktemp("server", numbered=False))
    yield
    note("end")

@pytest.fixture(scope="class")
def shared():
    note("class-begin")
    yield
    note("class-end")

@pytest.fixture(autouse=True)
def noted(request, server):
    note("test", request.node.nodeid)
"""

MIXED = """
import os, signal, sys, time
import pytest

@pytest.fixture
def broken_end():
    yield
    raise OSError("the end is broken")

class TestFirst:
    def test_one(self, shared):
        pass
    def test_says_why_it_fails(self, shared, capfd):
        print("lost")
        capfd.readouterr()
        os.write(1, b"written below")
        assert os.getpid() == 0, "a reason"
    def test_says_it_again(self):
        print("printed", "above")
        os.system("echo printed   by a program")
        assert False
    def test_three(self, shared):
        pass

class TestDies:
    def test_before(self): pass
    def test_exits(self): os._exit(3)
    def test_between(self): pass
    def test_is_killed(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_after(self): pass

class TestRest:
    def test_skipped(self): pytest.skip("no need")
    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected(self): assert False
    def test_broken_end(self, broken_end): pass
    @pytest.mark.parametrize("name", ["a b", "\\u00e4"])
    def test_named(self, name): pass

def test_alone(): pass
"""

LONG = """
import os, pytest, time
from pathlib import Path

@pytest.mark.parametrize("number", range(40))
class TestLong:
    def test_waits(self, number):
        if number == 0 and "FAIL" in os.environ:
            while Path(os.environ["LOG"]).read_text().count(" test ") < 2:
                time.sleep(0.02)
            assert False, "the first one"
        time.sleep(0 if "LATE" in os.environ else 0.2)
"""

INTERRUPTED_AFTER_A_TEST = """
import time

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    report = yield
    time.sleep(20 if "LATE" in os.environ and call.when == "teardown" else 0)
    return report
"""


def _project(tmp_path: Path, **files: str) -> tuple[list[str], dict[str, str]]:
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    command += ["-c", os.devnull, f"--rootdir={tmp_path}", f"--basetemp={tmp_path / 'tmp'}"]
    environment = os.environ | {"PYTHONPATH": str(KIT), "LOG": str(tmp_path / "log")}
    return command, environment


def _log(tmp_path: Path) -> list[list[str]]:
    log = tmp_path / "log"
    text = log.read_text("utf-8") if log.exists() else ""
    return [line.split(" ", 2) for line in text.splitlines()]


def test_every_test_is_run_once_and_reported_whatever_it_does(tmp_path: Path) -> None:
    command, environment = _project(tmp_path, conftest=CONFTEST, test_mixed=MIXED)
    run = subprocess.run(  # noqa: PLW1510  # most of its tests fail
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 1, run.stdout + run.stderr
    outcomes = dict[str, str]()
    texts = dict[str, str]()
    for case in ET.parse(tmp_path / "report.xml").iter("testcase"):  # noqa: S314  # ours
        children = [child for child in case if child.tag in {"failure", "error", "skipped"}]
        name = case.attrib["name"]
        assert name not in outcomes
        outcomes[name] = " ".join(child.tag for child in children) or "passed"
        texts[name] = " ".join("".join(child.itertext()) for child in children)
    failing = {"test_says_why_it_fails", "test_says_it_again", "test_exits", "test_is_killed"}
    assert outcomes == {
        **dict.fromkeys(["test_one", "test_three", "test_before", "test_between"], "passed"),
        **dict.fromkeys(["test_after", "test_named[a b]", "test_alone"], "passed"),
        "test_named[\\xe4]": "passed",
        **dict.fromkeys(failing, "failure"),
        **dict.fromkeys(["test_skipped", "test_expected"], "skipped"),
        "test_broken_end": "error",
    }
    # Why, and what it had written, where the run shows it.
    assert "a reason" in texts["test_says_why_it_fails"]
    assert re.search(r"ended with 3 in this test", texts["test_exits"])
    assert re.search(r"ended with -9 in this test", texts["test_is_killed"])
    assert "the end is broken" in texts["test_broken_end"]
    assert run.stdout.count("printed above") == run.stdout.count("printed by a program") == 1
    assert "lost" not in run.stdout.partition("TestFirst.test_says_it_again")[2]
    assert "4 failed, 9 passed, 1 skipped, 1 xfailed, 1 error" in run.stdout, run.stdout

    log = _log(tmp_path)
    tests = [(pid, what[0]) for pid, word, *what in log if word == "test"]
    # Each once, also those beside one that took its worker with it.
    assert set(Counter(name for _, name in tests).values()) == {1}
    assert len(tests) == len(outcomes)
    # What a class shares it has once, in one process; what a worker shares, once in that worker.
    assert len({pid for pid, name in tests if "TestFirst" in name}) == 1
    assert [word for _, word, *_ in log if word.startswith("class")] == ["class-begin", "class-end"]
    begun = [(pid, what[0]) for pid, word, *what in log if word == "begin"]
    assert {pid for pid, _ in begun} == {pid for pid, _ in tests}
    assert (
        len({directory for _, directory in begun}) == len(begun) == len({pid for pid, _ in begun})
    )
    died = {pid for pid, name in tests if name.endswith(("exits", "is_killed"))}
    assert {pid for pid, word, *_ in log if word == "end"} == {pid for pid, _ in begun} - died


def test_a_run_that_stops_ends_its_workers_and_what_they_share(tmp_path: Path) -> None:
    """A failure stops it, or an interrupt: in a test, or when one has been torn down.

    In the latter case the test was torn down again, which failed, and what workers share was left.
    Each worker is in a test when it happens: one that had not begun had nothing to end.
    """
    conftest = CONFTEST + INTERRUPTED_AFTER_A_TEST
    command, environment = _project(tmp_path, conftest=conftest, test_a=LONG, test_b=LONG)
    failed = subprocess.run(  # noqa: PLW1510  # likewise
        [*command, "-x"],
        cwd=tmp_path,
        env=environment | {"FAIL": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert failed.returncode == 1
    assert re.search(r"stopping after 1 failures", failed.stdout), failed.stdout
    _assert_ended(tmp_path)

    for late in ({}, {"LATE": "1"}):
        (tmp_path / "log").unlink()
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment | late, stdout=subprocess.PIPE, text=True
        ) as running:
            while len({pid for pid, word, *_ in _log(tmp_path) if word == "test"}) < 2:
                assert running.poll() is None
                time.sleep(0.02)
            time.sleep(0.1 if late else 0)
            running.send_signal(signal.SIGINT)  # the process alone: its workers hear it from there
            said, _ = running.communicate(timeout=120)
        assert running.returncode == 2
        assert "KeyboardInterrupt" in said
        assert "KeyError" not in said
        _assert_ended(tmp_path)


def _assert_ended(tmp_path: Path) -> None:
    """Two workers were in the middle of it: each has ended what it shares, and is gone."""
    log = _log(tmp_path)
    begun = {pid for pid, word, *_ in log if word == "begin"}
    assert len(begun) == 2
    assert {pid for pid, word, *_ in log if word == "end"} == begun
    assert sum(word == "test" for _, word, *_ in log) < 80
    assert not [pid for pid in begun if Path("/proc", pid).exists()]
