"""Scripts of calls: performed, recorded, and performed again."""
