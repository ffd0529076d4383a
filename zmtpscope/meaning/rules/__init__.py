"""What goes wrong with ZeroMQ: one module for each kind of trouble."""
