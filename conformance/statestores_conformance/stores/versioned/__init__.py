"""Tests of versioned stores."""
