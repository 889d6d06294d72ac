"""The policy file: what it says (rules), how it is read, and what it rules of a call. No I/O."""
