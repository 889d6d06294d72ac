"""The built-in tools `read`, `write`, `edit` and `bash`; `placet.Workspace` gives them."""
