"""What one ZMTP connection is: its two sides driven, and how it came out."""
