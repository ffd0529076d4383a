"""Browse a capture, or live traffic, in a terminal."""
