"""What records mean together: requests and replies, subscriptions, peers, and what went wrong between them."""
