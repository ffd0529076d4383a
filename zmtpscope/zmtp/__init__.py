"""The ZMTP core: parses octets into events, and builds octets from fields.

Standard library only: no I/O, no clock, no packets, no crypto.

- `negotiation` decides the version from the first octets of both sides.
- `side` reads one side: `scanner` parses plain message frames, the careful readers everything else.
- `greeting`, `framing`, `commands` (with `traffic` and `mechanisms`), `metadata` and `content` parse and build one
  layout each. `details` runs the same parsers with a recorder, which returns the field tree.
- `handshake_state` and `memberships` (over a `trie`) check each unit of a side against its earlier ones.
- `regime`, `reader`, `events`, `layout`, `tally` and `socket_types` are shared.
"""
