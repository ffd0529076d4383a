"""Diagnoses as a report for people."""
