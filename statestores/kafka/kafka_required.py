"""Says which extra to install where the Kafka client is missing; this room imports it first."""

from statestores.serdes.optional_packages import require_installed

require_installed("confluent_kafka", purpose="a topology on Kafka", extra="kafka")
