"""The worker process, which holds the capture and answers requests of the screen."""
