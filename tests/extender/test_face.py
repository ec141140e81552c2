"""What programs import of the extender."""

from __future__ import annotations

import subprocess
import sys

import extender


def test_all_names_are_there() -> None:
    """Each is of the module that makes it."""
    assert all(getattr(extender, name) is not None for name in extender.__all__)
    assert extender.GangPlan.__module__ == "extender.plans.gang_plan"


def test_nothing_is_loaded_until_it_is_asked_for() -> None:
    """The command line imports the package to tell whose it is, and starts fast."""
    code = "import extender, sys; print([name for name in ('numpy', 'msgspec', 'uvicorn') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
