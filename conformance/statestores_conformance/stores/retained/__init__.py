"""Tests of window and session stores."""
