"""What is tested: engines and stores, opened, filled and made to fail."""
