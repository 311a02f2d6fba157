"""The test driver, and a fixture for pytest in `statestores.processing.testing.pytest_plugin`."""

from statestores.processing.testing.driver import TestDriver
from statestores.processing.testing.topic_handle import TopicHandle

__all__ = ["TestDriver", "TopicHandle"]
