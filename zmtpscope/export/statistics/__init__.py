"""What `zmtpscope stats` counts: messages by whatever they have in common, their sizes, and how they are spread over
time."""
