"""Sockets that speak ZMTP over asyncio."""
