"""Print one line for repeated heartbeats, retries and gaps."""
