"""What Python programs use: `import zmtpscope`, and everything here by its name there."""
