"""Reshards of an operator's stores on a real S3 server, killed at each step."""

import json
import signal
from pathlib import Path

import forked_programs
import pytest
import reshard_writer
from object_operator import COUNTS, LAST, ObjectOperator
from s3 import Bucket

from statestores.resharding import reshard
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions.plan import resolve_stores

_STEPS = {
    "reshard.routed": False,
    "objects.snapshot.published": False,
    "objects.reshard.announced": False,
    "objects.reshard.fenced": False,
    "objects.reshard.ended": True,
    "reshard.noted": True,
}
"""Where it is killed, and whether the new partitions count then."""


@pytest.mark.long
@pytest.mark.spec("RSH-13", "RSH-19", "RSH-21", "OBJ-51")
def test_kills(bucket: Bucket, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The query goes on with the old partitions or with the new ones, and counts each word once."""
    options = {name: text for name, text in bucket.options.items() if isinstance(text, str)}
    options["client_options"] = bucket.options["client_options"]
    root = GivenRoot(bucket.root, json.dumps(options))
    program = Path(str(reshard_writer.__file__))
    operator, batches = ObjectOperator(root, tmp_path / "local"), 1
    operator.run(0)
    for store in ("counts", "last"):
        for failpoint, counts in _STEPS.items():
            if (store, failpoint) == ("counts", "objects.reshard.fenced"):
                continue  # it is the anchor, whose log says all
            with subtests.test(f"{store} at {failpoint}"):
                before = root.open().store(store).partitions
                case = {"url": bucket.root, "options": options, "failpoint": failpoint}
                more = {"store": store, "partitions": 5 - before}
                killed = forked_programs.run(program, json.dumps({**case, **more}))
                assert killed.returncode == -signal.SIGKILL, killed.stderr
                found = root.open().store(store).partitions
                assert found == (5 - before if counts else before)
                for each in ("counts", "last"):
                    reshard(root.open(), each, found)
                _, partitions = resolve_stores(root, [COUNTS, LAST], None)
                operator = ObjectOperator(root, tmp_path / "local", partitions)
                operator.run(batches)
                batches += 1
                operator.check(batches)
