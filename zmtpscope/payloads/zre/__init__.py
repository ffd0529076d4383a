"""ZRE, discovery and messages between peers (zre.md): what nodes say over ZMTP, and their beacons."""
