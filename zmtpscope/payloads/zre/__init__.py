"""ZRE, discovery and messages between peers (zre.md): commands over ZMTP, and beacons."""
