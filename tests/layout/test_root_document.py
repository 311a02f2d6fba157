"""`statestores.json`: what a state root says of its stores, and which of that is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import (
    StateStoreError,
    StoreCorruptedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.files.durable_json import write_json
from statestores.root_document import TOPOLOGY_NOTE, with_checksum
from statestores.staging.operator_file import (
    BatchRecord,
    StoreChanges,
    read_record,
    store_record,
)
from statestores.staging.staged_rows import StagedFile
from statestores.topology_note import noted_topology


@pytest.mark.spec("LAY-11")
def test_a_state_root_says_what_its_stores_are(tmp_path: Path) -> None:
    """Specification and partition count are in one file, and every opening reads them from it."""
    rates = ss.Versioned("rates", history_retention_ms=5, key=ss.utf8)
    ss.StateRoot.create(tmp_path).add_store(rates, partitions=4)

    said = json.loads((tmp_path / "statestores.json").read_bytes())
    assert re.fullmatch("[0-9a-f]{8}", said.pop("crc32"))
    assert said == {
        "format": 1,
        "stores": {"rates": {"partitions": 4, "specification": rates.describe()}},
    }
    entry = ss.StateRoot.open(tmp_path).store()
    assert (entry.specification, entry.partitions) == (rates, 4)


@pytest.mark.spec("LAY-11")
def test_a_flipped_bit_does_not_change_what_a_store_is(tmp_path: Path) -> None:
    """One bit made ``"ttl_ms": 0`` a 1, and what a store held was gone at its next opening.

    It was still JSON, as one flipped bit of thirty was, with another number of partitions,
    partitioner or retention. The file has a checksum now, and all of them are refused by its name.
    """
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.TimestampedKeyValue("times"), partitions=2)
    root.add_store(ss.Window("wins", retention_ms=9_000, window_size_ms=10), partitions=1)
    file = tmp_path / "statestores.json"
    whole, stores = file.read_bytes(), root.stores
    told = []
    for number in range(0, 8 * len(whole), 5):  # every bit of a byte, in turn
        place, bit = divmod(number, 8)
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            assert ss.StateRoot.open(tmp_path).stores == stores
        except (StoreCorruptedError, UnsupportedFormatError) as error:
            told.append(str(error))

    assert all(str(file) in text for text in told)
    assert any("does not have the checksum" in text for text in told)


@pytest.mark.spec("LAY-11")
def test_a_state_root_of_an_earlier_release_has_no_checksum(tmp_path: Path) -> None:
    """It is read as it is, and gets one with the next store.

    So is one from which it was removed, as the error advises.
    """
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.KeyValue("counts"), partitions=2)
    file = tmp_path / "statestores.json"
    document = json.loads(file.read_bytes())
    del document["crc32"]
    document["stores"]["counts"]["partitions"] = 3
    file.write_text(json.dumps(document))
    edited = ss.StateRoot.open(tmp_path)
    edited.add_store(ss.KeyValue("others"), partitions=1)

    assert edited.store("counts").partitions == 3
    assert "crc32" in json.loads(file.read_bytes())
    assert ss.StateRoot.open(tmp_path).stores == edited.stores


@pytest.mark.spec("LAY-11")
@pytest.mark.parametrize("inside", ["counts", "counts/0", "link"])
def test_a_state_root_is_not_made_inside_a_store(tmp_path: Path, inside: str) -> None:
    """An import into `state/counts` made a state root there, with a store `counts` of its own.

    From then on whoever gave `state/counts`, to look at the store, was shown the inner one.
    """
    ss.StateRoot.create(tmp_path / "state").add_store(ss.KeyValue("counts"), partitions=1)
    (tmp_path / "state" / "counts").mkdir()
    (tmp_path / "state" / "link").symlink_to("counts")

    with pytest.raises(StoreMismatchError, match=r"belongs to the store 'counts'.*give"):
        ss.StateRoot.create(tmp_path / "state" / inside)
    assert list((tmp_path / "state" / "counts").iterdir()) == []
    ss.StateRoot.create(tmp_path / "state" / "others").add_store(ss.KeyValue("a"), partitions=1)


@pytest.mark.spec("LAY-11")
def test_a_store_is_not_added_differently(tmp_path: Path) -> None:
    """Neither its partitions nor its specification change under those who read it."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.KeyValue("counts"), partitions=4)
    root.add_store(ss.KeyValue("counts"), partitions=4)

    with pytest.raises(StoreMismatchError, match="has 4 partitions, expected 5"):
        root.add_store(ss.KeyValue("counts"), partitions=5)
    with pytest.raises(StoreMismatchError, match="key is 'bytes', expected 'utf8'"):
        root.add_store(ss.KeyValue("counts", key=ss.utf8), partitions=4)


@pytest.mark.spec("LAY-11")
@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", StoreCorruptedError),
        ('{"format": 1}', StoreCorruptedError),
        ('{"format": 1, "stores": {"s": {}}}', StoreCorruptedError),
        ('{"format": 1, "stores": {"s": {"specification": 3}}}', StoreCorruptedError),
        ('{"format": 9, "stores": {}}', UnsupportedFormatError),
    ],
)
def test_a_state_root_that_cannot_be_read_is_refused(
    tmp_path: Path, content: str, error: type[Exception]
) -> None:
    """Nothing is taken for an empty root, and nothing overwritten."""
    (tmp_path / "statestores.json").write_text(content)

    for attempt in (ss.StateRoot.open, ss.StateRoot.create):
        with pytest.raises(error):
            attempt(tmp_path)
    assert (tmp_path / "statestores.json").read_text() == content


NOTE = {
    "format": 1,
    "state": "shop-0123456789abcdef",
    "groups": {"0": 0, "sinks": 1},
    "topology": {"format": 1, "name": "shop", "internal_topics": {}, "stores": {}, "parts": {}},
}


def every_flip(file: Path, read: Callable[[], object]) -> int:
    """Accept *file* if no flipped bit makes *read* return something else; return how many differ.

    Those that make it raise are told, and must be of our own.
    """
    data, right, told = file.read_bytes(), read(), 0
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            file.write_bytes(flipped)
            try:
                assert read() == right
            except StateStoreError:
                told += 1
    file.write_bytes(data)
    return told


@pytest.mark.spec("LAY-34")
def test_no_flipped_bit_makes_another_topology_note(tmp_path: Path) -> None:
    """A third of them gave the state another name, or its parts other numbers, and were taken.

    The topics bear the name, by which a state knows what it has emitted already.
    """
    file = tmp_path / TOPOLOGY_NOTE
    file.parent.mkdir()
    write_json(file, with_checksum(NOTE))

    told = every_flip(file, lambda: noted_topology(tmp_path))

    assert told > 8 * len(json.dumps(NOTE)) // 2


@pytest.mark.spec("LAY-34")
def test_no_flipped_bit_makes_another_micro_batch(tmp_path: Path) -> None:
    """One of them made it another number, and what comes again was not known for what it is."""
    file = StagedFile(name="a-0000-0.arrow", partition=0, rows=1, bytes=9, crc32c=7)
    record = BatchRecord(
        operator="counts",
        query="0a1b",
        number=4,
        write_id="0123456789abcdef",
        stores={"counts": StoreChanges(end_offsets={0: 7}, files=(file,))},
        outputs=(),
        columns="QUJD",
    )
    store_record(tmp_path, record)

    told = every_flip(tmp_path / "batch.json", lambda: read_record(tmp_path))

    assert told > 8 * 100


@pytest.mark.spec("LAY-34")
def test_a_note_and_a_micro_batch_of_an_earlier_release_have_no_checksum(tmp_path: Path) -> None:
    """They are read as they are."""
    file = tmp_path / TOPOLOGY_NOTE
    file.parent.mkdir()
    write_json(file, NOTE)

    noted = noted_topology(tmp_path)

    assert noted is not None
    assert noted.state == NOTE["state"]
