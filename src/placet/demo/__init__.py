"""The demonstration: a small shop, a stand-in model, and a story of real processes.

It sits above everything else, and `placet demo` alone starts it: what it does, any program can.
"""
