"""What the process reports about itself: logs and metrics."""
