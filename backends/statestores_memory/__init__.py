"""The in-memory backend: the reference, read it first.

`engine` shows what the contract asks for, `content` is the ordered map beneath it, `snapshot` and
`iterators` are the frozen views, and `options` is the shape that every backend's options have.
"""

from statestores_memory.engine import MemoryEngine
from statestores_memory.options import MemoryOptions

__all__ = ["MemoryEngine", "MemoryOptions"]
