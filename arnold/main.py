"""The console script ``arnold``."""

from __future__ import annotations

import sys
from typing import NoReturn

PACKAGES = ("topology", "scheduler", "health", "extender", "simulator", "arnold")
"""Every top-level package of the wheel."""


def main() -> NoReturn:
    """Check that all packages are ours, run the command that the arguments name, and exit with its code."""
    from arnold.guard import check_packages

    try:
        check_packages(*PACKAGES)
    except ImportError as error:
        sys.exit(f"Error: {error}")
    from arnold.commands.interrupts import watch_for_interrupts
    from arnold.commands.run import run

    watch_for_interrupts()
    sys.exit(run(sys.argv[1:]))
