"""Children of a process that uses object stores: their client's threads stay with the parent."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from forked_programs import run
from s3 import Bucket

KIT = str(Path(__file__).parent / "kit")

_USE = """
import json, os, signal, sys
from statestores.errors import StoreClosedError
from statestores.storage import open_storage

url, port, uses = json.loads(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from s3 import options_of
options = options_of(port) if port else {}
storage = open_storage(url, options)
if uses:
    storage.create("a", b"1")
child = os.fork()
if child == 0:
    signal.alarm(20)
    told = {}
    for name, each in (("old", storage), ("new", open_storage(url, options))):
        calls = {
            "create": lambda: each.create("b", b"2"),
            "replace": lambda: each.replace("b", b"2", each.read("b").tag),
            "read": lambda: each.read("a"),
            "read_range": lambda: each.read_range("a", 0, 1),
            "read_many": lambda: each.read_many(["a", "b"]),
            "list": lambda: list(each.list("")),
            "delete": lambda: each.delete("b"),
        }
        for call, use in calls.items():
            try:
                use()
                told[f"{name} {call}"] = "done"
            except StoreClosedError as error:
                told[f"{name} {call}"] = "spawn" if "by 'spawn'" in str(error) else str(error)
    print(json.dumps(told), flush=True)
    os._exit(0)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bool(storage.read("b"))]))
"""

_READ = """
import json, os, signal, sys, threading, time
import statestores as ss

root = ss.StateRoot.create("memory://forked/root")
root.add_store(ss.KeyValue("counts"), partitions=1)
logged = ss.open_logged_store(root, "counts", 0, directory=sys.argv[1], backend="memory")
source = ss.TopicPartition("source", 0)

def commit(number):
    for key in (b"a", b"b", b"c"):
        logged.store.put(key, b"%d" % number)
    logged.commit({source: number})

def write():
    number = 0
    while True:
        number += 1
        commit(number)

commit(0)
view = logged.store.read_only()

def read():
    while True:
        list(view.range())

for work in (write, read, read):
    threading.Thread(target=work, daemon=True).start()
wrong = 0
for _ in range(30):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(len({value for _, value in view.range()}) != 1)
    wrong += os.waitpid(child, 0)[1] != 0
print(json.dumps(wrong), flush=True)
os._exit(0)
"""


def _run(program: str, *arguments: str) -> list[Any]:
    done = run(program, *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _port(bucket: Bucket) -> int:
    return urlsplit(str(bucket.options["endpoint"])).port or 0


@pytest.mark.spec("OBJ-52")
@pytest.mark.parametrize("place", ["s3", "memory"])
def test_a_child_is_told_that_it_cannot_reach_an_object_store(place: str, bucket: Bucket) -> None:
    """It waited for ever for an answer that a thread of its parent would have taken."""
    url, port = (bucket.root, _port(bucket)) if place == "s3" else ("memory://forked/use", 0)

    told, (code, is_there) = _run(_USE, json.dumps([url, port, True]), KIT)

    assert set(told.values()) == {"spawn"}
    assert len(told) == 14
    assert code == 0
    assert not is_there  # the parent goes on


@pytest.mark.spec("OBJ-52")
def test_a_child_of_a_process_that_has_used_none_reaches_it(bucket: Bucket) -> None:
    """The client's threads begin with the first call, and each of the two has its own."""
    told, (code, is_there) = _run(_USE, json.dumps([bucket.root, _port(bucket), False]), KIT)

    assert set(told.values()) == {"done"}
    assert code == 0
    assert not is_there


@pytest.mark.spec("ENG-43")
def test_a_child_reads_what_waits_for_an_engine_in_memory(tmp_path: Path) -> None:
    """18 of 60 children hung, each at the lock that another thread of its parent held."""
    assert _run(_READ, str(tmp_path)) == [0]
