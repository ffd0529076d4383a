"""The keys of CURVE connections of our own programs: recorded, and written to key logs."""
