"""A ZMTP connection: combines its two sides, and determines its outcome."""
