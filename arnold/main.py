"""The console script ``arnold``; it stops early where one of our package names is another project's package.

PyPI has another distribution that installs a top-level package ``scheduler``.  pip lets two distributions write the
same file: the one installed last owns ``scheduler/__init__.py``, and when it is uninstalled the file is gone.  Arnold
would then run with another project's package around its own modules.  A mark in each ``__init__.py`` shows that; it is
an attribute, so that looking at it costs no start-up time, as reading the metadata of what is installed would.
"""

import gc
import os
import sys
from importlib import import_module
from typing import NoReturn

PACKAGES = ("ground", "topology", "scheduler", "health", "extender", "slurm", "simulator", "arnold")
"""Every top-level package of the wheel."""

COLLECTED_AFTER = 100_000
"""New objects after which garbage is looked for: modules make as many and leave none, and at Python's own few hundred a
tenth of a small command goes to looking."""

DISTRIBUTION = "arnold-scheduler"  # The mark that each of our top-level packages carries under the same name


def kubectl() -> NoReturn:
    """Run ``arnold kube`` with the arguments: the console script ``kubectl-arnold``, a plug-in of kubectl."""
    main("kube")


def main(*before: str) -> NoReturn:
    """Check that all packages are ours, run the command that the arguments name, and exit with its code.

    :param before: words that stand before the arguments.
    """
    gc.set_threshold(COLLECTED_AFTER)
    # of pydantic, which would read the metadata of all that is installed to find some
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for name in PACKAGES:
        try:
            package = import_module(name)
        except ImportError as error:
            sys.exit(f"Error: {error}")
        if getattr(package, "DISTRIBUTION", None) != DISTRIBUTION:
            place = getattr(package, "__file__", None) or ", ".join(package.__path__)
            remedy = (
                "give Arnold an environment of its own (pipx makes one), or uninstall the other distribution "
                f"and install {DISTRIBUTION} again"
            )
            for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
                if folder and place.startswith(os.path.join(os.path.abspath(folder), "")):  # noqa: PTH100, PTH118
                    remedy = "run it without PYTHONPATH, which puts that folder first: env -u PYTHONPATH arnold ..."
            sys.exit(
                f"Error: the package {name!r} at {place} does not belong to {DISTRIBUTION}: another distribution has "
                f"replaced it or stands before it on the path\nTo fix: {remedy}"
            )
    from arnold.commands.run import run
    from arnold.console.interrupts import watch_for_interrupts

    watch_for_interrupts()
    code = run([*before, *sys.argv[1:]])
    gc.freeze()  # the interpreter ends by looking for garbage among all that there is: a fifth of a small command
    sys.exit(code)
