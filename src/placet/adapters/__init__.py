"""Ways in from frameworks: each translates to the gate's two verbs, and judges nothing itself.

Here belong LangGraph and guarded functions: how a framework's calls become proposals, how its loop
is told to go on, and how results come back. Recovery, order and waiting are `runtime.hosting`'s.
"""
