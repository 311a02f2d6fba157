"""The conformance suite for backends."""
