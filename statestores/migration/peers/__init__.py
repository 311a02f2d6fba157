"""What Quix Streams, Faust, Bytewax and plain databases have on a disk, read and taken over."""
