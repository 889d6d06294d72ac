"""The runtime: the one writer, the one door, bodies and their recovery, and the worker.

Here belong what has a clock, threads and processes: it gathers the facts that commands carry, and
lets `core` decide by them. Policy files are looked at here, and ruled by `policy`; the record is
held to account here (audit, anchors, receipts).
"""
