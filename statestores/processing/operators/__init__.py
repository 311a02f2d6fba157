"""What each step does to a record or to a row: one family of operators in each module."""
