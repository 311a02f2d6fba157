"""The benchmarks: run from a checkout."""
