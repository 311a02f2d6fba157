"""The restore of a store, in bulk, from a snapshot and the changes after it."""
