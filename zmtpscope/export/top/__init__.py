"""Count messages for `zmtpscope top`, and draw its table."""
