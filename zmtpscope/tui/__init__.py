"""The full-screen interface: browse a capture, or live traffic, in a terminal."""
