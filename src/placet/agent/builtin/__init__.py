"""The built-in tools `read`, `write`, `edit` and `bash`; `placet.Workspace` gives them.

Here belong what they do to files and processes of one directory, how they are kept inside it, and
what their cards show. They are declared as any tool is, and have no way of their own to run.
"""
