"""Window and session stores over an engine, which keep rows for a time."""
