"""What an object store holds in a schedule: frames that are told by a number, and all objects."""

from functools import lru_cache
from typing import Any

from statestores.changelog.frame import (
    FRAME_FORMAT_VERSION,
    FRAME_HEADER_BYTES,
    FrameHeader,
    FrameKind,
    pack_frame,
    unpack_header,
)
from statestores.changelog.segments.segment_head import SegmentHead, head_bytes
from statestores.changelog.stored_position import pack_position
from statestores.object_log.frames import read_entry
from statestores.object_log.requests import (
    Create,
    Delete,
    ListNames,
    Read,
    ReadMany,
    Replace,
    Request,
    Steps,
)
from statestores.spi import Position, TopicPartition
from statestores.storage import Found, Outcome, Unchanged

INPUT = TopicPartition("in", 0)
_UNCHANGED = Unchanged()


@lru_cache(256)
def position_of(number: int) -> Position:
    """Return the position that tells a frame."""
    return Position({INPUT: number, TopicPartition("other", number % 5): number})


def frame(number: int, base: int, rows: int, *, clear: bool = False) -> bytes:
    """Return a frame that is told by *number*, which is its position."""
    position = pack_position(position_of(number))
    body = b"" if clear else b"%-16d" % number
    header = FrameHeader(
        version=FRAME_FORMAT_VERSION,
        kind=FrameKind.CLEAR if clear else FrameKind.CHANGES,
        flags=0,
        position_bytes=len(position),
        body_bytes=len(body),
        num_changes=0 if clear else rows,
        base_offset=base,
        last_offset=base + rows - 1,
        appended_at_ms=0,
    )
    return pack_frame(header, position, body) + body


@lru_cache(1024)
def told_by(data: bytes) -> tuple[FrameHeader, int]:
    """Return the header of the frame *data*, which is intact, and the number that tells it."""
    stored = read_entry(data, "a frame")
    number = stored.position[INPUT]
    assert stored.position == position_of(number)
    return stored.header, number


@lru_cache(256)
def frames_of(data: bytes) -> tuple[bytes, ...]:
    """Return the frames of a segment, or the one that *data* is."""
    at = head_bytes(data) if data.startswith(b"statelog") else 0
    if at:
        SegmentHead.unpack(data[:at])
    frames = []
    while at < len(data):
        found = unpack_header(data[at : at + FRAME_HEADER_BYTES], 0)
        assert found is not None
        frames.append(data[at : at + found[1].frame_bytes])
        at += found[1].frame_bytes
    return tuple(frames)


class Memory:
    """What the object store holds."""

    def __init__(self) -> None:
        self.objects: dict[str, Found] = {}
        self._tags = 0

    def execute(self, request: Request) -> Any:
        """Carry *request* out, and return the true answer."""
        if isinstance(request, Read):  # four of five
            name, tag = request
            found = self.objects.get(name)
            return found if tag is None or found is None or found.tag != tag else _UNCHANGED
        match request:
            case Create(name, data):
                if name in self.objects:
                    return Outcome.REFUSED
                return self._put(name, data)
            case Replace(name, data, tag):
                held = self.objects.get(name)
                if held is None or held.tag != tag:
                    return Outcome.REFUSED
                return self._put(name, data)
            case ListNames(prefix):
                return sorted(name for name in self.objects if name.startswith(prefix))
            case Delete(name):
                self.objects.pop(name, None)
                return None
        raise AssertionError(request)

    def _put(self, name: str, data: bytes) -> Outcome:
        self._tags += 1
        self.objects[name] = Found(data, str(self._tags))
        return Outcome.DONE


def one_by_one(steps: Steps[Any]) -> Steps[Any]:
    """Ask for what is read at the same time in single requests: anything may come between them."""
    answer: Any = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as done:
            return done.value
        if isinstance(request, ReadMany):
            answer = []
            for name in request.names:
                answer.append((yield Read(name)))
        else:
            answer = yield request
