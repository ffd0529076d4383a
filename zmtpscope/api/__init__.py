"""The Python API: `import zmtpscope` exports every public name in this package."""
