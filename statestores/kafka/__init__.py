"""Topologies on a Kafka cluster: groups, transactions, and changelogs that Kafka Streams reads."""

import statestores.kafka.kafka_required
import statestores.serdes.arrow_required  # noqa: F401  # before what needs Arrow

# isort: split
from statestores.kafka.answering.topic_membership import TopicMembership
from statestores.kafka.progress import KafkaProgress
from statestores.kafka.runner import KafkaRunner
from statestores.kafka.running import run
from statestores.kafka.task_places import ChangelogPlace, TaskPlace

__all__ = ["ChangelogPlace", "KafkaProgress", "KafkaRunner", "TaskPlace", "TopicMembership", "run"]
