"""Fold repeated heartbeats, retries, and gaps of the snap length in text output."""
