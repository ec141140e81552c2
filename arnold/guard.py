"""Stop early where ``scheduler``, ``arnold`` or another of our package names is another project's package.

PyPI has another distribution that installs a top-level package ``scheduler``.  pip lets two distributions write the
same file: the one installed last owns ``scheduler/__init__.py``, and when it is uninstalled nobody does.  Arnold would
then run with another project's package around its own modules.  A mark in each ``__init__.py`` shows that; it is an
attribute, so that looking at it costs no start-up time, as reading the metadata of what is installed would.
"""

from __future__ import annotations

import os
from importlib import import_module

DISTRIBUTION = "arnold-scheduler"
"""The mark that each of our top-level packages carries under the same name."""


def check_packages(*names: str) -> None:
    """Check that top-level packages carry our mark.

    :raises ImportError: one does not; the message says where it lies and what to do.
    """
    for name in names:
        package = import_module(name)
        if getattr(package, "DISTRIBUTION", None) != DISTRIBUTION:
            place = getattr(package, "__file__", None) or ", ".join(package.__path__)
            raise ImportError(
                f"the package {name!r} at {place} does not belong to {DISTRIBUTION}: another distribution has replaced "
                f"it or stands before it on the path\nTo fix: {_remedy(place)}"
            )


def _remedy(place: str) -> str:
    """Return what to do, by how the package came to stand there."""
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and place.startswith(os.path.join(os.path.abspath(folder), "")):  # noqa: PTH100, PTH118
            return "run it without PYTHONPATH, which puts that folder first: env -u PYTHONPATH arnold ..."
    return (
        "give Arnold an environment of its own (pipx makes one), or uninstall the other distribution "
        f"and install {DISTRIBUTION} again"
    )
