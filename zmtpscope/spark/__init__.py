"""Captures as tables of Spark."""
