"""A process that forks while it has a logged store open: all of it stays its own."""

import json
from pathlib import Path

import pytest
from forked_programs import run

import statestores as ss

# The child tries to write, lives on while the parent closes and reopens, and then just ends.
_PROGRAM = """
import json, os, sys
import statestores as ss
from statestores.errors import StoreClosedError

root = sys.argv[1]
logged = ss.open_logged_store(root, "forked", backend="sqlite")
logged.store.put(b"k", b"pending")
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(go[1])
    refused = []
    for write in (
        lambda: logged.store.put(b"child", b"c"),
        lambda: logged.commit(),
        lambda: logged.changelog.append(ss.Changes([b"child"], [b"c"])),
        lambda: logged.snapshot(),
    ):
        try:
            write()
        except StoreClosedError as error:
            refused.append("'spawn'" in str(error))
    logged.close()
    os.write(ready[1], json.dumps(refused).encode() + b"\\n")
    os.read(go[0], 1)
    sys.exit(0)
os.close(ready[1])
with os.fdopen(ready[0]) as answer:
    refused = json.loads(answer.readline())
logged.commit()
logged.close()
with ss.open_logged_store(root, "forked") as again:
    content = [key.decode() for key, _ in again.store.range()]
    end = again.changelog.end_offset
os.close(go[1])
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps([refused, content, end, code]))
"""


@pytest.mark.spec("COM-44", "ASM-9")
def test_a_forked_child_writes_neither_store_nor_changelog(tmp_path: Path) -> None:
    """Before, a commit of the child went into the changelog that its parent was writing."""
    ss.StateRoot.create(tmp_path).add_store(ss.KeyValue("forked"), partitions=1)
    program = run(_PROGRAM, tmp_path)

    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == [[True] * 4, ["k"], 1, 0]
