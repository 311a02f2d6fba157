"""Kafka's text format of offsets: what is read, what is refused, and how it is written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import (
    InvalidArgumentError,
    MalformedCheckpointError,
    StorageError,
    UnsupportedFormatError,
)
from statestores.migration import read_offsets_file, write_offsets_file
from statestores.spi.offsets import TopicPartition
from statestores_conformance.many_cases import for_each

COUNTS = TopicPartition("app-counts-changelog", 3)
WORDS = TopicPartition("app-words-changelog", 3)
WHOLE = "0\n2\napp-counts-changelog 3 1841\napp-words-changelog 3 -4\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a file may be."""
    return tmp_path / ".checkpoint"


@pytest.mark.spec("MIG-1")
def test_a_file_of_kafka_is_read(file: Path) -> None:
    """The sentinel -4 is no offset."""
    file.write_text(WHOLE)

    assert read_offsets_file(file) == {COUNTS: 1841, WORDS: None}


@pytest.mark.spec("MIG-1")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_and_any_white_space_is_read(file: Path, end: str) -> None:
    """As Kafka does, whichever platform has written it."""
    file.write_bytes(WHOLE.replace(" ", " \t").replace("\n", end).encode())

    assert read_offsets_file(file) == {COUNTS: 1841, WORDS: None}


@pytest.mark.spec("MIG-1")
def test_no_file_is_not_an_empty_one(file: Path) -> None:
    """Absence means that nothing is known."""
    assert read_offsets_file(file) is None

    file.write_text("0\n0\n")

    assert read_offsets_file(file) == {}


@pytest.mark.spec("MIG-1")
@for_each(
    ("text", "line", "problem"),
    [
        ("", 1, "is empty"),
        ("zero\n0\n", 1, "is no version"),
        ("0\n", 2, "number of rows is missing"),
        ("0\nmany\n", 2, "is no number"),
        ("0\n-1\n", 2, "out of range"),
        ("0\n1\n", 3, "the file is cut"),
        ("0\n1\na 0 1\nb 0 1\n", 4, "more rows than"),
        ("0\n2\na 0 1\na 0 1\n", 4, "is there twice"),
        ("0\n1\n\n", 3, "is no row"),
        ("0\n1\na 0\n", 3, "is no row"),
        ("0\n1\na b 0 1\n", 3, "is no row"),
        ("0\n1\na x 1\n", 3, "expected a partition"),
        ("0\n1\na 0 ٣\n", 3, "expected an offset"),
        ("0\n1\na 0 -1\n", 3, "-1 is no offset"),
        ("0\n1\na 0 -5\n", 3, "out of range"),
        ("0\n1\na 0 9223372036854775808\n", 3, "out of range"),
        ("0\n1\na 0 " + "9" * 10_000 + "\n", 3, "out of range"),
        ("0\n1\na 4294967296 1\n", 3, "out of range"),
        ("0\n1\na 0 18", 3, "may be cut"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    file: Path, text: str, line: int, problem: str
) -> None:
    """An offset that is wrong would skip records: nothing is guessed."""
    file.write_text(text, encoding="utf-8")

    with pytest.raises(MalformedCheckpointError, match=problem) as caught:
        read_offsets_file(file)

    assert f"{str(file)!r}, line {line}: " in str(caught.value)


@pytest.mark.spec("MIG-1")
def test_every_cut_is_noticed(file: Path) -> None:
    """A file that lacks any number of its last bytes is never read as a whole one."""
    for length in range(len(WHOLE)):
        file.write_text(WHOLE[:length])
        with pytest.raises(MalformedCheckpointError):
            read_offsets_file(file)


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    """With the line on which they are."""
    file.write_bytes(b"0\n1\na\xff 0 1\n")

    with pytest.raises(MalformedCheckpointError, match="line 3: not UTF-8"):
        read_offsets_file(file)


@pytest.mark.spec("MIG-1")
def test_another_version_is_refused(file: Path) -> None:
    """It is not malformed: a newer release may know it."""
    file.write_text("1\n0\n")

    with pytest.raises(UnsupportedFormatError, match="line 1: version 1"):
        read_offsets_file(file)


@pytest.mark.spec("MIG-2")
def test_the_bytes_are_those_of_kafka(file: Path) -> None:
    """Rows are sorted here, where Kafka promises no order."""
    write_offsets_file(file, {WORDS: None, COUNTS: 1841})

    assert file.read_text() == WHOLE
    assert [path.name for path in file.parent.iterdir()] == [".checkpoint"]


@pytest.mark.spec("MIG-2")
def test_writing_nothing_removes_the_file(file: Path) -> None:
    """As Kafka does: there is no file without rows."""
    write_offsets_file(file, {COUNTS: 1})
    write_offsets_file(file, {})
    write_offsets_file(file, {})

    assert not file.exists()


@pytest.mark.spec("MIG-2")
def test_a_file_that_cannot_be_written_stays(file: Path) -> None:
    """What was there is there, whole."""
    file.write_text(WHOLE)
    (file.parent / ".checkpoint.tmp").mkdir()

    with pytest.raises(StorageError, match="cannot write"):
        write_offsets_file(file, {COUNTS: 1842})
    assert file.read_text() == WHOLE


@pytest.mark.parametrize("topic", ["two words", "tail ", "line\nend"])
def test_a_topic_with_white_space_is_refused(file: Path, topic: str) -> None:
    """It could not be read back."""
    with pytest.raises(InvalidArgumentError, match="white space"):
        write_offsets_file(file, {TopicPartition(topic, 0): 1})


@given(
    st.dictionaries(
        st.builds(
            TopicPartition,
            st.text("abcXYZ019._-", min_size=1),
            st.integers(0, 2**31 - 1),
        ),
        st.none() | st.integers(0, 2**63 - 1),
        min_size=1,
    )
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, offsets: dict[TopicPartition, int | None]
) -> None:
    """For all offsets of all partitions."""
    file = tmp_path_factory.mktemp("offsets") / "a.position"
    write_offsets_file(file, offsets)

    assert read_offsets_file(file) == offsets
