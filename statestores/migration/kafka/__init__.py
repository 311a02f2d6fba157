"""What Kafka Streams has left on a disk, read and taken over."""
