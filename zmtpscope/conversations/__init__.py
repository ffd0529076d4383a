"""Select and print conversations: the messages of a connection, a peer or a topic, one by one."""
