"""What touches the machine it runs on: programs that are run to record the keys of their connections, and recordings of
what an application says itself."""
