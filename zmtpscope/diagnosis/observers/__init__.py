"""Observers of one connection: requests, subscriptions, publishing, heartbeats."""
