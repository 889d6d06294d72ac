"""What rules are matched against, and how: so far shell commands (placet.policy.shell)."""
