"""Kafka's names on a store: an error that names ours."""

from pathlib import Path

import pytest

import statestores as ss
from statestores.spi.foreign_names import FOREIGN_NAMES


@pytest.mark.parametrize("specification", [ss.KeyValue("s"), ss.KeyValue("s", key=ss.utf8)])
def test_a_name_of_kafka_is_missing_and_says_what_to_use(
    specification: ss.KeyValue[bytes, bytes], tmp_path: Path
) -> None:
    """Of owner and facade, typed or not; ``hasattr`` is false, and ``dir`` does not list it."""
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        for each in (store, store.read_only()):
            for name, hint in FOREIGN_NAMES.items():
                assert not hasattr(each, name)
                assert name not in dir(each)
                with pytest.raises(AttributeError) as refused:
                    getattr(each, name)
                assert str(refused.value).endswith(f"{name!r}, which is Kafka's name: {hint}")
            with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
                _ = each.nonsense  # type: ignore[attr-defined]  # on purpose
