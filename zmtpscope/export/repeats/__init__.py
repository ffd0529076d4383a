"""Heartbeats, retries and gaps of the snap length, folded in lines for people."""
