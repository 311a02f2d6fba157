"""Cases with the answers of the real Kafka Streams."""
