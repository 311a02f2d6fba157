"""Stateful functions of streaming DataFrames, with stores."""
