"""Facts across connections."""
