"""`python -m placet` is the command `placet`."""

from __future__ import annotations

from placet.cli.main import main

if __name__ == "__main__":
    main()
