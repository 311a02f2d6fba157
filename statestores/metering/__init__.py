"""Measuring the calls of a store: counts, latencies, and iterators that are open."""
