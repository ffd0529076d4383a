"""Views of a capture: tables with a filter for each number."""
