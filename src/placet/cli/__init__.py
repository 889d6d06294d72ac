"""The command line: translates, never judges."""
