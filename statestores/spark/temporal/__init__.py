"""As-of joins of DataFrames with versioned stores."""
