"""Reports of diagnoses."""
