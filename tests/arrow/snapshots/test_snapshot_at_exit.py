"""A snapshot that a thread writes when the program's main thread has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from statestores.arrow import read_snapshot

_PROGRAM = """
import sys
import threading

from statestores.arrow import write_snapshot
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import KeyValue, TopicPartition

store = open_on_engine(load_backend("memory").open("unused"), KeyValue("s"))
store.put_many([b"%03d" % number for number in range(300)], [b"v"] * 300)
store.commit({TopicPartition("log", 0): 300})

def last_words():
    threading.main_thread().join()
    write_snapshot(store, sys.argv[1], batch_rows=100, rows_per_file=200)

threading.Thread(target=last_words).start()
"""


@pytest.mark.spec("SNP-1")
def test_a_thread_that_outlives_the_main_one_still_writes_a_snapshot(tmp_path: Path) -> None:
    """Executors take no work then, and the error of theirs would have been the snapshot's."""
    program = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    ended = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60)

    assert ended.stderr == ""
    snapshot = read_snapshot(tmp_path / f"{300:020}")
    snapshot.verify()
    assert [rows.num_rows for rows in snapshot.batches()] == [100, 100, 100]
