"""Lets Spark discover the data source without a call."""
