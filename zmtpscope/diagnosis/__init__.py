"""Derived records (requests, subscriptions, peers) and diagnoses of problems between them."""
