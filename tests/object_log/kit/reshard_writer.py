"""Reshards ``counts`` in an object store, and dies at a failpoint.

python reshard_writer.py '{"url": ..., "options": ..., "partitions": ..., "failpoint": ...}'
"""

import json
import os
import signal
import sys

import statestores as ss
from statestores.failpoints import arm
from statestores.resharding import reshard

if __name__ == "__main__":
    case = json.loads(sys.argv[1])
    root = ss.StateRoot.open(case["url"], storage_options=case["options"])
    arm(case["failpoint"], lambda: os.kill(os.getpid(), signal.SIGKILL), at=1)
    reshard(root, "counts", case["partitions"])
