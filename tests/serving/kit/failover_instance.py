"""A process with one instance of an application: it follows one line of commands a step.

``assign ACTIVE... / STANDBY...`` answers ``ready``; ``write N`` commits the number N into every
partition that is active here, and answers ``written N``. Killed at any moment, it leaves the rest
to its standby elsewhere.
"""

import sys
from pathlib import Path

from served_shop import COUNTS, INPUT

import statestores as ss
from statestores.query.metadata import LeaseMembership
from statestores.serving import Announcer, FlightServer, ServedTasks
from statestores.tasks import TaskManager


def answer(words: str) -> None:
    """Tell whoever gives the commands."""
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def main(root: str, name: str, follow_interval_s: str) -> None:
    """Run the instance *name* over the state root at *root*, until there are no more commands.

    Its copies are as they were when they were assigned, if *follow_interval_s* is an hour.
    """
    with TaskManager(
        root,
        {0: [COUNTS.name]},
        local_directory=Path(root).parent / name,
        backend="memory",
        durability=ss.Durability.PROCESS_CRASH,
        follow_interval_s=float(follow_interval_s),
    ) as manager:
        served = ServedTasks(manager)
        with (
            FlightServer(served, instance=name) as server,
            Announcer(
                served, LeaseMembership(root), name, host=server.host, interval_s=0.05
            ) as announcer,
        ):
            for line in sys.stdin:
                command, *words = line.split()
                if command == "assign":
                    at = words.index("/")
                    manager.assign(words[:at], words[at + 1 :])
                    for copies in manager.standbys.values():
                        for standby in copies:
                            standby.poll()
                    announcer.publish()
                    answer("ready")
                else:
                    number = int(words[0])
                    for task in manager.tasks.values():
                        task.store(COUNTS.name).put("number", number)
                        task.store(COUNTS.name).put(f"at {number % 7}", number)
                        task.commit({INPUT: number})
                    answer(f"written {number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
