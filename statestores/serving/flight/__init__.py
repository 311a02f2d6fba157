"""The Arrow Flight face: instances ask each other by it, and Python from elsewhere."""
