"""``python -m tuner`` is the ``tuner`` command."""

from __future__ import annotations

from tuner.cli.app import main

if __name__ == "__main__":
    main()
