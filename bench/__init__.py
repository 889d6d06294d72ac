"""Benchmarks: ratios measured side by side in one run, with a table for people and JSON."""
