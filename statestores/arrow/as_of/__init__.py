"""As-of joins of whole columns with versioned stores."""
