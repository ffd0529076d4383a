"""The lane: what many connections say in the midst of their sessions, read at once."""
