"""Conversations: what was said on a connection, by a peer or under a topic, message by message."""
