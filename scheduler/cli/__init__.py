"""The command ``arnold``: the only door of click and rich.

Commands live in one module each and are imported when they are called, so that ``arnold --help`` imports click and
nothing else.  A command returns its exit code (``None`` = 0) and raises :class:`~topology.errors.ArnoldError` for
whatever a user can cause; :mod:`scheduler.cli.run` alone turns errors into messages and exit codes.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the console script."""
    from scheduler.guard import check_packages

    try:
        check_packages("topology", "scheduler")
    except ImportError as error:
        sys.exit(f"Error: {error}")
    from scheduler.cli.interrupt import watch_for_interrupts
    from scheduler.cli.run import run

    watch_for_interrupts()
    sys.exit(run(sys.argv[1:]))
