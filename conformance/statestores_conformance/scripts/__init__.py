"""Scripts of calls: performed, written down, and performed again."""
