"""Count messages for `zmtpscope stats`."""
