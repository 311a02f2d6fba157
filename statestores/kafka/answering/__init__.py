"""An instance that answers: which stores it has open, and how it finds the others."""
