"""The LevelDB backend."""
