"""The demonstration: a small shop, a stand-in model, and a story of real processes.

It sits above everything else and is used by nothing: what it does, any program can do.
"""
