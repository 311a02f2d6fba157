"""Stores of the types of their serdes, over stores of bytes."""
