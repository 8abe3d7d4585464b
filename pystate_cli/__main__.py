"""`python -m pystate_cli`."""

from __future__ import annotations

from pystate_cli.main import main

if __name__ == "__main__":
    main()
