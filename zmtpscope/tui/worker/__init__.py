"""The process behind the screen: it has the capture, and answers."""
