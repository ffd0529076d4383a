"""Views of a capture: tables in which each number has a filter."""
