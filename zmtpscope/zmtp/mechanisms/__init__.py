"""The security mechanisms: one module each, with a table of its commands (wire.md 8)."""
