"""Judges: a connection to be read only comes in, or facts of many; notes go out."""
