"""What connections mean together: publishers and subscribers, peers, requests over several hops."""
