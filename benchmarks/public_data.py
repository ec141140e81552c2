"""The folder of public data, which is no part of the project."""

import os
from pathlib import Path


def public_data(*parts: str) -> Path:
    """A file or folder below the one that ``ARNOLD_DATA`` names.

    :raises RuntimeError: ``ARNOLD_DATA`` is not set.
    """
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        raise RuntimeError("set ARNOLD_DATA to the folder of the public data")
    return Path(folder, *parts)
