"""Facts across connections: publishers and subscribers, peers, requests over several hops."""
