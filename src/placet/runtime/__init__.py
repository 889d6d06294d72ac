"""The runtime: the one writer, the one door, effects and their recovery, and the worker."""
