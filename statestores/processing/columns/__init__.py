"""Batches: what operators do with whole columns. Needs Arrow, and is loaded when a batch comes."""
