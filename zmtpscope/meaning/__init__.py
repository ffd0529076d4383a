"""Meaning of records together: requests and replies, subscriptions, peers, and problems between them."""
