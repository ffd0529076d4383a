"""What `zmtpscope scan` finds: who speaks ZMTP where, how, and who was refused."""
