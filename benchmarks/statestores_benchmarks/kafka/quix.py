"""The count in Quix Streams: BOOTSTRAP NAME SOURCE TARGET STATE, until it is killed.

It runs in an environment of its own: Quix Streams wants an older client than statestores.
"""

import sys
from typing import Any

from quixstreams import Application


def main(bootstrap: str, name: str, source: str, target: str, state: str) -> None:
    """Count."""
    application = Application(
        broker_address=bootstrap,
        consumer_group=name,
        state_dir=state,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        loglevel="ERROR",
    )
    given = application.topic(source, key_deserializer="str", value_deserializer="bytes")
    counted = application.topic(target, key_serializer="str", value_serializer="int")

    def count(_: Any, rows: Any) -> int:
        number = int(rows.get("n", 0)) + 1
        rows.set("n", number)
        return number

    application.dataframe(given).apply(count, stateful=True).to_topic(counted)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
