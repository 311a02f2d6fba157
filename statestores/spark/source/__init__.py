"""The data source ``statestore``: batch and streaming reads and writes."""
