"""Tests of key-value stores whose values have timestamps."""
