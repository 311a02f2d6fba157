"""What works without third-party packages, and what is said when one is missing."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from statestores.errors import MissingDriverError
from statestores.partitioning import murmur2_partitioner
from statestores.serdes import float64, int64, json, json_serde, msgpack, msgpack_serde, raw, utf8
from statestores.serdes.optional_packages import require

_IMPORT = """
import sys
import statestores.partitioning, statestores.serdes as serdes
serdes.utf8.encode("x"), serdes.int64_sorted.encode(1), serdes.float64.encode(1.5)
statestores.partitioning.murmur2_partitioner.partition(b"x", 4)
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])))
"""


@pytest.fixture(autouse=True)
def forget_packages() -> Iterator[None]:
    """Let each test find packages, or miss them, anew."""
    json_serde._codec.forget()
    msgpack_serde._msgpack.cache_clear()
    yield
    json_serde._codec.forget()
    msgpack_serde._msgpack.cache_clear()


@pytest.mark.spec("SRD-21")
def test_importing_serdes_imports_no_third_party_package() -> None:
    """Nor does encoding single values of the simple serdes, nor partitioning single keys."""
    packages = ["msgpack", "numpy", "orjson", "pandas", "pyarrow"]
    finished = subprocess.run(
        [sys.executable, "-c", _IMPORT, *packages], capture_output=True, text=True, check=True
    )

    assert finished.stdout.split() == []


@pytest.mark.spec("SRD-21")
def test_msgpack_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "msgpack", None)

    with pytest.raises(MissingDriverError, match=r"'msgpack'.*pip install 'statestores\[serdes\]'"):
        msgpack.encode({"a": 1})
    with pytest.raises(MissingDriverError):
        msgpack.decode(b"\x01")


@pytest.mark.spec("SRD-21")
def test_columns_without_pyarrow_name_it(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for serde in (raw, utf8, int64, float64, json, msgpack):
        with subtests.test(serde.name):
            install = r"pip install 'statestores\[arrow\]'"
            with pytest.raises(MissingDriverError, match=install):
                serde.encode_array([])
            with pytest.raises(MissingDriverError, match=install):
                serde.decode_array([])
            with pytest.raises(MissingDriverError, match=install):
                serde.arrow_type()
            with pytest.raises(MissingDriverError, match=install):
                murmur2_partitioner.partition_array([], 4)


@pytest.mark.spec("SRD-21")
def test_columns_of_numbers_without_numpy_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install."""
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(MissingDriverError, match=r"'numpy'.*pip install 'statestores\[arrow\]'"):
        int64.encode_array(pa.array([1]))


@pytest.mark.spec("SRD-21")
def test_json_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without orjson the standard library writes the same bytes."""
    value = {"b": [1, 0.00001, None], "a": "é"}
    with_orjson = json.encode(value)
    monkeypatch.setitem(sys.modules, "orjson", None)
    json_serde._codec.forget()

    assert json.encode(value) == with_orjson
    assert json.decode(with_orjson) == value


@pytest.mark.spec("SRD-21")
@pytest.mark.parametrize("package", ["statestores", "breaks_on_import"])
def test_a_package_that_lacks_a_part_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, package: str
) -> None:
    """Telling somebody to install what is installed helps nobody."""
    (tmp_path / "breaks_on_import.py").write_text("import a_part_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    if package == "statestores":
        assert require(package, purpose="this test", extra="none").__name__ == package
        return
    with pytest.raises(ModuleNotFoundError, match="a_part_that_is_not_there") as caught:
        require(package, purpose="this test", extra="none")

    assert not isinstance(caught.value, MissingDriverError)
