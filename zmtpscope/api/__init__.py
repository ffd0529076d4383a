"""The Python API: `import zmtpscope` exports its public names."""
