"""zmtpscope: a protocol analyser for ZeroMQ traffic."""

__version__ = "0.1.0"
