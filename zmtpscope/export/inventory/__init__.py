"""The inventory of `zmtpscope scan`: ZMTP endpoints and refused clients."""
