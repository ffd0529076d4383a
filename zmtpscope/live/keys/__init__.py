"""Record the CURVE keys of programs that the user runs in key logs."""
