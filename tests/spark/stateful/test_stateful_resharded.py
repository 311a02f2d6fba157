"""A stateful function whose stores get another number of partitions."""

from pathlib import Path

import pytest
import stateful_words
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from stateful_words import Files, counted, give_words, start, state_of, stream_of, word_count
from store_streams import run

import statestores as ss
from statestores.resharding import reshard
from statestores.verification import verify

WORDS = ["a", "b", "ä", "日本", "", "🦀", "a b", "a"]


@pytest.fixture(autouse=True)
def sent_by_value() -> None:
    """The workers cannot import the kit, so Spark sends its functions as a whole."""
    cloudpickle.register_pickle_by_value(stateful_words)  # type: ignore[no-untyped-call]  # Spark's


@pytest.mark.spec("RSH-19", "RSH-10", "RSH-2")
def test_it_goes_on_with_its_checkpoint_and_other_partitions(
    spark: SparkSession, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Each word is counted once, and lies where the partitioner says.

    A query that was running, and waited for input while its store was resharded, went on shuffling
    by the old partitions: it counted words anew where nobody looks for them, and said nothing.
    """
    words, state, checkpoint = (tmp_path / name for name in ("words", "state", "checkpoint"))
    files = Files(tmp_path / "out")
    give_words(words, 0, WORDS)
    stream = word_count(stream_of(spark, words), state)
    query = stream.foreachBatch(files).option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()

    with subtests.test("a query that runs is told"):
        reshard(state, "counts", 3)
        give_words(words, 1, [*WORDS, "c", "d"])
        with pytest.raises(StreamingQueryException, match=r"has 3 partitions, and had 2 .*again"):
            query.processAllAvailable()
        assert state_of(state) == counted(words)[0]

    with subtests.test("a new one goes on"):
        again = word_count(stream_of(spark, words), state, partitions=None)
        run(start(again, checkpoint, files))
        _judge(words, state, files, 3)

    with subtests.test("fewer partitions, and back"):
        # The ends of the changelogs that `again` has seen are those of other ones.
        reshard(state, "counts", 1)
        reshard(state, "counts", 3)
        give_words(words, 2, WORDS)
        run(start(again, checkpoint, files))
        _judge(words, state, files, 3)

    with subtests.test("a copy elsewhere begins with a new checkpoint"):
        copy, later = tmp_path / "copy", tmp_path / "later"
        reshard(state, "counts", 5, to=copy)
        give_words(later, 0, WORDS)
        give_words(words, 3, WORDS)
        moved = word_count(stream_of(spark, later), copy, partitions=None)
        with pytest.raises(StreamingQueryException, match="begin with a new checkpoint"):
            run(start(word_count(stream_of(spark, words), copy, partitions=None), checkpoint))
        run(start(moved, tmp_path / "another"))
        assert state_of(copy) == {
            word: number + WORDS.count(word) for word, number in state_of(state).items()
        }
        assert ss.StateRoot.open(copy).store("counts").partitions == 5
        assert [each for each in verify(copy) if each.is_failure] == []


def _judge(words: Path, state: Path, files: Files, partitions: int) -> None:
    """Compare state and output with the words; `verify` looks at each key's partition."""
    truth = counted(words)
    assert files.counts() == truth
    assert state_of(state) == {word: n for batch in truth for word, n in batch.items()}
    assert ss.StateRoot.open(state).store("counts").partitions == partitions
    assert [each for each in verify(state) if each.is_failure] == []
