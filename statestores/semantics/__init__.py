"""What every store does in the same way on any engine: buffer, commit, kinds, retention, facades.

Standard library only. Read `rows.layout`, then `every_kind.engine_store`, `key_value`, `versioned`.
"""

from statestores.semantics.opening import open_on_engine

__all__ = ["open_on_engine"]
