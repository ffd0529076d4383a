"""One side of a connection: takes octets, and returns parsed greetings, commands and messages as values."""
