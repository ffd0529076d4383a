"""The views of a capture: counted tables, with a filter for the records of each number."""
