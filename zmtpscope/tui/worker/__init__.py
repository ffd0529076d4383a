"""The worker process of the screen: holds the capture and answers requests."""
