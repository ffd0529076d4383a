"""Run the command line: `python -m zmtpscope` is the same as `zmtpscope`."""

from zmtpscope.cli import main

if __name__ == "__main__":  # another process may import this one's main module
    main()
