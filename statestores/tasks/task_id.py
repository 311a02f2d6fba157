"""The name of a task: which stores, and which partition of them (KIP-28)."""

import re
from dataclasses import dataclass
from typing import Self

from statestores.errors import InvalidArgumentError, InvalidTypeError

_TEXT = re.compile(r"([0-9]{1,10})_([0-9]{1,10})")


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """The stores of one group, in one partition: what one thread processes as a unit.

    Written as Kafka Streams writes it: ``TaskId(0, 3)`` is ``0_3``.
    """

    group: int
    """The number of the group of stores that belong together, from 0; Kafka's subtopology."""

    partition: int
    """The partition, from 0: of the input, of every store of the group, of their changelogs."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InvalidTypeError, InvalidArgumentError: One of them is none.
        """
        for name, number in (("group", self.group), ("partition", self.partition)):
            if type(number) is not int:
                raise InvalidTypeError(f"a task's {name} must be an int, got {number!r}")
            if not 0 <= number < 1 << 31:
                raise InvalidArgumentError(
                    f"a task's {name} must be from 0 to 2**31 - 1, got {number!r}"
                )

    @classmethod
    def of(cls, task: "Self | str") -> Self:
        """Return *task*, given itself or its name.

        Raises:
            InvalidTypeError, InvalidArgumentError: It is neither.
        """
        if isinstance(task, cls):
            return task
        if not isinstance(task, str):
            raise InvalidTypeError(f"a task is a TaskId or its name, such as '0_3'; got {task!r}")
        return cls.parse(task)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the task that *text*, such as ``0_3``, names.

        Raises:
            InvalidTypeError, InvalidArgumentError: It names none.
        """
        if not isinstance(text, str):
            raise InvalidTypeError(f"a task's name must be a str, got {text!r}")
        found = _TEXT.fullmatch(text)
        if found is None:
            raise InvalidArgumentError(
                f"a task is named by its group and its partition, such as '0_3'; got {text!r}"
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.group}_{self.partition}"
