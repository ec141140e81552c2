#!/usr/bin/env python3
"""Turn PyTorch Flight Recorder dumps (pickles) into JSON, where they were written.

Copy this file to the machine that wrote the dumps and run it there, with any Python from 3.8 on; it needs nothing else:

    python3 flight_recorder_to_json.py [--host NAME] nccl_trace_rank_*

Each FILE becomes FILE.json, with the rank (the digits at the end of the name) added, and with --host the node that all
these ranks ran on.  This machine's own name is never taken for it: dumps of many nodes lie on one file system.  Only
plain data are read: a pickle that asks for anything else is refused.  Do not run it on files of others all the same.
``arnold`` reads the JSON and never a pickle.
"""

import json
import pickle
import re
import sys
from pathlib import Path


def _same(value: object, *_: object) -> object:
    return value


class PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries, and nothing that would run code."""

    PLAIN = frozenset(
        ("torch.jit._pickle", name)
        for name in ("build_intlist", "build_doublelist", "build_boollist", "restore_type_tag")
    )

    def find_class(self, module: str, name: str) -> object:
        """Refuse whatever is not a list in disguise."""
        if (module, name) in self.PLAIN:
            return _same
        raise pickle.UnpicklingError(f"it asks for {module}.{name}: not a Flight Recorder dump")


def convert(path: str, host: str) -> str:
    """Write FILE.json beside FILE; returns its name.  An empty host is not known."""
    with Path(path).open("rb") as file:
        dump = PlainUnpickler(file).load()
    if not isinstance(dump, dict) or "entries" not in dump:
        raise pickle.UnpicklingError("it has no 'entries': not a Flight Recorder dump")
    digits = re.search(r"(\d+)$", path)
    if digits is not None:
        dump.setdefault("rank", int(digits.group(1)))
    if host:
        dump["host"] = host
    target = f"{path}.json"
    with Path(target).open("w", encoding="utf-8") as file:
        json.dump(dump, file)
    return target


def main(arguments: "list[str]") -> int:
    """Convert every file that is named; 1 if one could not be."""
    host, paths = "", list(arguments)
    if paths[:1] == ["--host"]:
        host, paths = (paths[1] if len(paths) > 1 else ""), paths[2:]
    if not paths or (arguments[0] == "--host" and not host):
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for path in paths:
        try:
            print(convert(path, host))
        except (OSError, EOFError, ValueError, TypeError, pickle.UnpicklingError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
