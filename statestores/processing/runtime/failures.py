"""What becomes of a record at which an operator fails, by the policy (KIP-161, 1033, 1034)."""

import traceback
from collections.abc import Callable
from typing import Any

from statestores.errors import (
    FencedError,
    ProcessingError,
    StorageError,
    StoreClosedError,
    StoreCorruptedError,
)
from statestores.processing.error_policy import Action, DeadLetter
from statestores.processing.operators.operator import Operator, Receive
from statestores.processing.processor import Processor
from statestores.processing.record import RawRecord, Record

NOT_OF_A_RECORD = (
    StorageError,
    StoreCorruptedError,
    StoreClosedError,
    FencedError,
    ProcessingError,  # a step stops the task by it, as `suppress` may that is full
)
"""What is not the fault of the record at hand, such as a store that fails: no reason to drop it
(PRC-99)."""

NO_RECORDS_FAULT = (
    "the record is not to blame, and no error policy drops it for that: mend it, and run again"
)
"""What to do where a task stops, whatever the policy."""

A_RECORDS_FAULT = "mend it, or choose another error policy than 'fail'"
"""What to do where it stops because of the policy."""

FOR_GOOD = (
    "what is in its store would be wrong from here on, so no error policy goes on: filter such "
    "rows out before this step, or mend its functions, and run again"
)
"""What to do where an aggregate can neither add a row nor leave it out."""

_PREFIX = "__streams.errors."
"""Of the names of headers that KIP-1034 gives to dead letters."""


def guarded(
    operator: Operator, action: Action, failed: Callable[[str, Exception, Action], None]
) -> Receive:
    """Return what gives an item to *operator*, and tells *failed* of a failure, with *action*.

    With ``fail`` it is the operator's own method, and the failure reaches `TaskRuntime.process`.
    """
    receive = operator.receive
    if action == "fail":
        return receive

    def guard(item: Any) -> None:
        try:
            receive(item)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            failed(operator.name, error, action)

    return guard


def guarded_timer(
    node: str,
    callback: Callable[[int], None],
    action: Action,
    failed: Callable[[str, Exception, Action], None],
) -> Callable[[int], None]:
    """Return what calls *callback*, a timer of *node*, and tells *failed* likewise."""
    if action == "fail":
        return callback

    def guard(now_ms: int) -> None:
        try:
            callback(now_ms)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            failed(node, error, action)

    return guard


def failing_operator(error: BaseException) -> str | None:
    """Return the name of the innermost operator in the traceback of *error*."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, Operator):
            found = owner.name
        elif isinstance(owner, Processor):
            found = owner._name  # noqa: SLF001  # its operator has no frame of its own
    return found


def processing_error(
    operator: str,
    topic: str,
    partition: int,
    offset: int,
    error: BaseException,
    advice: str | None = None,
) -> ProcessingError:
    """Return the error that names where *error* happened, with *advice* or what is usual."""
    where = (
        f"at {topic!r}, partition {partition}, offset {offset}"
        if topic
        else "in a timer or a commit"
    )
    advice = advice or advice_on(error)
    return ProcessingError(
        f"{operator!r} failed {where}: {type(error).__name__}: {error}; {advice}"
    )


def advice_on(error: BaseException) -> str:
    """Return what to do about *error*, which stops a task."""
    return NO_RECORDS_FAULT if isinstance(error, NOT_OF_A_RECORD) else A_RECORDS_FAULT


def dead_letter(
    raw: RawRecord,
    operator: str,
    topic: str,
    partition: int,
    offset: int,
    error: BaseException,
) -> RawRecord:
    """Return the input record with what happened to it in its headers (KIP-1034)."""
    said = {
        "exception": type(error).__name__,
        "message": str(error),
        "stacktrace": "".join(traceback.format_exception(error)),
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "operator": operator,
    }
    more = tuple((_PREFIX + name, text.encode()) for name, text in said.items())
    time_ms = raw.time_ms if type(raw.time_ms) is int and raw.time_ms >= 0 else 0
    return Record(raw.key, raw.value, time_ms, (*raw.headers, *more))


def dead_letter_topic(action: Action) -> str | None:
    """Return where *action* sends a record; ``None`` when nowhere."""
    return action.topic.name if isinstance(action, DeadLetter) else None
