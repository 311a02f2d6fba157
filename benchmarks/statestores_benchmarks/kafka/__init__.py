"""Counts by key on a Kafka broker, exactly once, beside Quix Streams and Kafka Streams."""
