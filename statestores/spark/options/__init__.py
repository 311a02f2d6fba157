"""The options of the data source, from Spark's strings to values."""
