"""What every test of the repository shares: profiles, soak runs, required backends, descriptors."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from statestores.errors import StateStoreError
from statestores.registry import load_backend

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"

# A Spark session costs seconds: the tests of one file share it.
_SPARK_AREAS = {"spark", "examples"}

_DESCRIPTORS = Path("/proc/self/fd")


def _register_hypothesis_profiles() -> None:
    """Register how random tests run, and choose by HYPOTHESIS_PROFILE, soak and CI, in this order.

    No profile has a deadline: on a shared machine it would be a timing assert.
    """
    settings.register_profile(
        "default",
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    # Under CI a red run is about the change, not about luck. Luck has the soak run.
    settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
    settings.register_profile(
        "soak", settings.get_profile("default"), max_examples=2_000, stateful_step_count=200
    )
    chosen = "soak" if _SOAK else "ci" if os.environ.get("CI") else "default"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", chosen))


def _check_required_backends() -> None:
    """Refuse to start when a backend that STATESTORES_REQUIRE_BACKENDS names cannot be loaded.

    Without the variable, the tests of an engine whose driver is missing are skipped by name. Where
    it is set, as it is in CI, such a skip would hide that nothing was tested.
    """
    required = os.environ.get("STATESTORES_REQUIRE_BACKENDS", "")
    failures = []
    for name in filter(None, map(str.strip, required.split(","))):
        try:
            load_backend(name)
        except StateStoreError as error:
            failures.append(f"  {name}: {error}")
    if failures:
        raise pytest.UsageError(
            f"STATESTORES_REQUIRE_BACKENDS={required} cannot be met:\n" + "\n".join(failures)
        )


def _let_spark_find_this_environment() -> None:
    """Make Spark start quickly, with this interpreter, and listen on this machine only.

    Left alone, it takes the first `python3` on PATH, which need not have pyarrow.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # No session of a test lives long enough to be worth compiling well: a third of the CPU time.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    _register_hypothesis_profiles()
    _let_spark_find_this_environment()
    _check_required_backends()


# Before pytest-xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Send the tests of a file with Spark to one worker."""
    tests = config.rootpath / "tests"
    for item in items:
        area = item.path.relative_to(tests).parts[0] if item.path.is_relative_to(tests) else ""
        if area in _SPARK_AREAS or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(f"spark {item.path.name}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to start when groups mean nothing: each worker would do their long preparations.

    pytest-xdist 3.8 tells them by a suffix of the node id, which pytest 9.2 no longer lets it
    change (pytest-dev/pytest-xdist#1386). Nothing fails then, all is only slow.
    """
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if session.config.getoption("loadgroup", default=False) and any(
        "@" not in item.nodeid for item in grouped
    ):
        raise pytest.UsageError(
            f"pytest-xdist does not keep groups of tests together with pytest {pytest.__version__};"
            " install what constraints.txt says: make setup"
        )


@pytest.fixture
def no_descriptor_leaks() -> Iterator[None]:
    """Fail the test when it leaves a file open that was not open before.

    For the tests of engines and logs, by ``pytest.mark.usefixtures``: so it is set up before the
    fixtures that open something, and looks after they have closed it. Nothing is collected first:
    a file that only the garbage collector closes has not been closed. Sockets and pipes do not
    count; they belong to Spark and to subprocesses.
    """
    if not _DESCRIPTORS.is_dir():
        pytest.skip(f"open files can be listed only where there is {_DESCRIPTORS}")
    before = _open_files()
    yield
    leaked = sorted(_open_files() - before)

    assert leaked == []


def _open_files() -> set[tuple[str, str]]:
    """Return descriptor and path of each file that this process has open."""
    files = set()
    for descriptor in _DESCRIPTORS.iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/")):
            files.add((descriptor.name, target))
    return files
