"""The fixture for tests of topologies, used as a stranger uses it."""

import pytest

pytest_plugins = ["pytester"]

TEST = """
import statestores as ss
from statestores.processing import Topic, Topology

def test_counts(drive):
    shop = Topology("shop")
    lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
    lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    driver = drive(shop, backend="memory")
    driver.topic("lines").pipe("x", key="a", time_ms=1)

    assert driver.store("counts").get("a") == 1
"""


@pytest.mark.spec("PRC-46")
def test_the_fixture_drives_a_topology(pytester: pytest.Pytester) -> None:
    """One option is all that it takes."""
    pytester.makepyfile(TEST)

    result = pytester.runpytest_subprocess("-p", "statestores.processing.testing.pytest_plugin")

    result.assert_outcomes(passed=1)
