"""What a metric is, and every metric that there is."""
