"""Functions that compare the connections of a run."""
