"""Rules that diagnose problems with ZeroMQ, one module for each kind of problem."""
