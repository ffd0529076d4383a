"""What is observed of one connection: requests, subscriptions, what is published, heartbeats."""
