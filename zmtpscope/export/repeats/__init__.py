"""Heartbeats and retries, folded in lines for people."""
