"""The views of a capture: tables that are counted, each number with the filter that leads to its records."""
