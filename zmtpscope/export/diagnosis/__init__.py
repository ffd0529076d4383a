"""Format diagnoses."""
