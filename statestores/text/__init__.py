"""Times, keys and values as text, for people and for programs; and what people write."""
