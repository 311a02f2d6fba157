"""Rows of a store as one Arrow or Parquet file, and back."""
