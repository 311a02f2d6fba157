"""Kafka Streams' own persistent stores, in Java, beside ours: the same rows, the same buffers."""
