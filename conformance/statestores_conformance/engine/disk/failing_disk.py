"""A disk that fails whoever waits for it, in one thread and for the rest of its life.

Linux can refuse chosen system calls of a thread with an error of its choice: a program of the
kernel's packet filter looks at the number of each call (seccomp(2), `SECCOMP_SET_MODE_FILTER`). It
needs no rights, and nobody can take it back, so it is for a thread that is about to end.
"""

import ctypes
import errno
import platform
import struct
import sys

_WAITS = {"x86_64": (74, 75), "aarch64": (82, 83)}
"""The numbers of ``fsync`` and ``fdatasync``, by machine."""

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_MODE_FILTER = 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of linux/bpf_common.h
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000  # of linux/seccomp.h


class _Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def let_waits_for_the_disk_fail() -> bool:
    """Let ``fsync`` and ``fdatasync`` fail in this thread, and in those that it starts.

    Return whether the system can do so.
    """
    numbers = _WAITS.get(platform.machine(), ())
    if sys.platform != "linux" or not numbers:
        return False
    instructions = [
        (_LOAD, 0, 0, 0),
        *((_JUMP_IF_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL_WITH | errno.EIO),
    ]
    packed = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    buffer = ctypes.create_string_buffer(packed)
    program = _Program(len(instructions), ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None).prctl
    refused: int = prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    refused = refused or prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0)
    return not refused
