"""The rows of each kind of store as whole columns: what a log leaves of them, and an engine has.

`tail` is what the changes of a log leave, and `encoder` what a store's engine is given. Each kind
has a module with both: `key_value`, `versioned` and `retained`. `kinds` chooses between them.
"""

from statestores.arrow.rows.kinds import encoder_of, tail_of

__all__ = ["encoder_of", "tail_of"]
