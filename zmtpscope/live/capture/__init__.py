"""Capture on this machine: interfaces, filters, rights, and the process that takes packets and writes them as pcapng.

Nothing here knows a dissector: what is captured is read like any other capture.
"""
