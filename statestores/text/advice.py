"""What messages tell a program to do next, and what whoever ran a command does instead.

A command has closed by the time its message is read: there is nothing to be opened again.
"""

from typing import Final

OPEN_ROOT_AGAIN: Final = (
    "open the state root again, read the content of the store once more, and go on from the ends "
    "of its changelogs"
)
"""Of a store that was resharded since its root was opened."""

ROOT_FINDS_OUT: Final = "open that state root again, which finds out"
"""Where nobody can tell whether a root has something now."""

STORE_FINDS_OUT: Final = "close the store and open it again, which finds out"
"""Where nobody can tell whether a log has something now."""

_OF_COMMANDS: Final = {
    OPEN_ROOT_AGAIN: "run the command again, which reads the partitions that it has now",
    ROOT_FINDS_OUT: "run the command again, which finds out",
    STORE_FINDS_OUT: "run the command again, which finds out",
}


def of_commands(message: str) -> str:
    """Return *message* with the advice for whoever ran a command."""
    for advice, instead in _OF_COMMANDS.items():
        message = message.replace(advice, instead)
    return message
