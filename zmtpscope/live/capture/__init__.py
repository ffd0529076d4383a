"""Capture on this machine: interfaces, filters, privileges, and the process that writes pcapng."""
