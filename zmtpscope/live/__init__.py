"""What touches the machine it runs on: so far programs that are run to record the keys of their connections."""
