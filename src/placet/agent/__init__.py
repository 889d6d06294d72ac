"""The harness: tools, model clients and the loop, a client of the same gate as any adapter."""
