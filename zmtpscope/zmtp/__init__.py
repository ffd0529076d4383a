"""The ZMTP core: octets in, events out; fields in, octets out.

Standard library only: no I/O, no clock, no packets, no crypto.

- `negotiation` decides the version from the first octets of both sides;
- `side` reads one side with it: `scanner` for plain message frames, the careful readers for everything else;
- `greeting`, `framing`, `commands` (with `traffic` and `mechanisms`), `metadata` and `content` are the layouts, each
  read and built in one place; `details` runs the same readers once more with a recorder, which gives the field tree;
- `handshake_state` and `memberships` (over a `trie`) judge what a side sends by what it has sent before;
- `regime`, `reader`, `events`, `layout`, `tally` and `socket_types` are what these share.
"""
