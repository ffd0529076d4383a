"""Look around in a capture, or at live traffic, in a terminal."""
