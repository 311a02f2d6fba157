"""What becomes of a record that cannot be decoded, processed or encoded (KIP-161, 1033, 1034)."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from statestores.errors import InvalidTypeError
from statestores.processing.topic import Topic


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Send the input record, as it came, to a topic, with the reason in its headers (KIP-1034)."""

    topic: Topic[bytes, bytes]
    """A topic of bytes."""


Action: TypeAlias = Literal["fail", "skip"] | DeadLetter
"""``fail``: stop with the error. ``skip``: count it, say so in the log, go on. Or a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """What to do, by where it happens. The default is to fail: nothing is lost unnoticed."""

    decode: Action = "fail"
    """A key or value of the input is not what its serde reads, or its time is none."""

    process: Action = "fail"
    """An operator raises. What the operators before it have done with the record stays, and the
    other children of its parent get the record (KIP-1033)."""

    encode: Action = "fail"
    """A record does not fit the serdes of the topic that it goes to."""

    @property
    def dead_letter_topics(self) -> tuple[Topic[bytes, bytes], ...]:
        """The topics that the policy writes."""
        actions = (self.decode, self.process, self.encode)
        found = {each.topic.name: each.topic for each in actions if isinstance(each, DeadLetter)}
        return tuple(found.values())


def error_policy(policy: Action | ErrorPolicy) -> ErrorPolicy:
    """Return a policy: itself, or one that does the same everywhere.

    Raises:
        InvalidTypeError: It is neither.
    """
    if isinstance(policy, ErrorPolicy):
        for action in (policy.decode, policy.process, policy.encode):
            _check(action)
        return policy
    _check(policy)
    return ErrorPolicy(decode=policy, process=policy, encode=policy)


def _check(action: object) -> None:
    topic: object = action.topic if isinstance(action, DeadLetter) else None
    if isinstance(action, DeadLetter) and not isinstance(topic, Topic):
        raise InvalidTypeError(
            f"dead letters go to a Topic, such as DeadLetter(Topic('dead')), got {topic!r}"
        )
    if action not in ("fail", "skip") and not isinstance(action, DeadLetter):
        raise InvalidTypeError(
            f"errors must be 'fail', 'skip', a DeadLetter(topic), or an ErrorPolicy, got {action!r}"
        )
