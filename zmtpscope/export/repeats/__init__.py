"""Fold repetitions in text output."""
