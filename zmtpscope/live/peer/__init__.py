"""ZMTP sockets over asyncio."""
