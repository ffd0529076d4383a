"""The version of zmtpscope; what is built from it and what writes it down ask here."""

__version__ = "0.1.0"
