"""The version of zmtpscope: the only definition, also used by the build."""

__version__ = "0.1.0"
