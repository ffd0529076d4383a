"""Capture on this machine: interfaces, filters, privileges, and the process that writes packets as pcapng.

Nothing here depends on a dissector: the written files are read like any other capture.
"""
