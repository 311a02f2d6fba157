"""Versioned stores over an engine (KIP-889)."""
