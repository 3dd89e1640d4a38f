"""``python -m reconciler`` runs ``lancens``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, from which no command imports modules
    from reconciler.cli import main

    main()
