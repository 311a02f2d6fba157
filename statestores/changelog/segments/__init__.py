"""The files of a log: segments of frames, the last of them active, in a directory."""
