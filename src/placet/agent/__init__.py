"""The harness: tools, model clients and the loop, a client of the same gate as any adapter.

Here belong what a developer declares (agents, tools), what a model is shown, and the loop that
asks `next_work` what to do. It knows no store, and enters no body but through the gate.
"""
