"""What threads read while the owner commits."""
