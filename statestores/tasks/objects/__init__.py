"""Tasks whose changelogs are in an object store: what takes the place of locks and files."""
