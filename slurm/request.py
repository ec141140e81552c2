"""What a user asks for a job of Slurm's: ``tp=8,pp=8,dp=12,alpha=0.3`` on the command line, or behind ``arnold:`` in
the comment of the job.

The comment is the only place of a job that users and we may both write, so it also says what came of it: behind a
semicolon what a plan is worth, or behind ``refused:`` why there is none.  ``begin=SECONDS`` in it, which job_submit.lua
and ``serve`` write, is the user's own begin of the job (seconds since 1970).
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass

from ground.errors import InvalidInput
from ground.files import Source
from topology.running_jobs import degrees_in

JOB_KEYS = ("alpha", "level", "model")  # of a grid, besides degrees of parallelism
MOST_COMMENT = 1_000  # characters of a comment: Slurm takes 1,024
REFUSED = "refused:"
_WORTH = re.compile(r"DP spread (\d{1,9}), PP spread (\d{1,9}), objective (\d{1,9}(?:\.\d{1,9})?), (\w+)")
_GRID = re.compile(r"\w+=[\w.+-]+(?:,\w+=[\w.+-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class GridRequest:
    """What the comment of a job asks."""

    grid: str  # as it is written, without blanks and without begin
    begin: float | None = None  # the user's own; None = at once
    worth: str = ""  # of its plan, as serve wrote it
    refused: str = ""  # why serve left it alone
    fault: str = ""  # why it cannot be read

    @property
    def told(self) -> tuple[int, int, float, str] | None:
        """DP and PP spread, objective and proof of its plan, as its worth has them; ``None`` = it has none."""
        found = _WORTH.search(self.worth)
        return None if found is None else (int(found[1]), int(found[2]), float(found[3]), found[4])

    def comment(self, *, worth: str = "", refused: str = "", begin: float | None = None) -> str:
        """Return the comment of the job with what came of it."""
        begin = self.begin if begin is None else begin
        grid = self.grid + (f",begin={begin:.0f}" if begin is not None else "")
        text = (
            f"arnold: {REFUSED} {refused}; {grid}" if refused else f"arnold: {grid}" + (f"; {worth}" if worth else "")
        )
        return "".join(sign if sign.isprintable() else " " for sign in text)[:MOST_COMMENT]


def asked_in(comment: str) -> GridRequest | None:
    """Return what a comment asks; ``None`` = it is no request.

    >>> asked_in("arnold: tp=8, pp=8,dp=12,begin=1795958518; DP spread 2")
    GridRequest(grid='tp=8,pp=8,dp=12', begin=1795958518.0, worth='DP spread 2', refused='', fault='')
    >>> asked_in("arnold: $(reboot)").fault, asked_in("of arnold: tp=8")
    ("'$(reboot)' is no grid such as tp=8,pp=8,dp=12", None)
    """
    head, found, text = comment.strip().partition("arnold:")
    if not found or head:
        return None
    text = text.strip()
    if text.startswith(REFUSED):
        why, _, grid = text.removeprefix(REFUSED).rpartition(";")
        return GridRequest(grid.strip(), refused=why.strip())
    grid, _, worth = (part.strip() for part in text.partition(";"))
    grid = re.sub(r"\s*,\s*", ",", grid)
    if not _GRID.fullmatch(grid):
        return GridRequest(grid, worth=worth, fault=f"{grid[:40]!r} is no grid such as tp=8,pp=8,dp=12")
    begin = re.search(r"(?:^|,)begin=(\d{1,12})(?=,|$)", grid)
    if begin is not None:
        grid = (grid[: begin.start()] + grid[begin.end() :]).strip(",")
    return GridRequest(grid, None if begin is None else float(begin[1]), worth)


def job_file_of(grid: str, *, where: str = "--grid") -> Source:
    """Return the job file that a grid stands for, or raise InvalidInput: it is none."""
    names = set[str]()
    for part in grid.split(","):
        name, separator, _ = part.strip().partition("=")
        if not separator:
            fix = "write it as tp=8,pp=8,dp=16; alpha=0.3 and level=NAME may follow"
            raise InvalidInput(f"{part[:40]!r} is no degree of parallelism", where=where, fix=fix)
        if (key := name.strip().lower()) in names:
            raise InvalidInput(f"{key} is there twice", where=where, fix="name each degree once")
        names.add(key)
    degrees = degrees_in(grid)
    job: dict[str, object] = {name: degrees.pop(name) for name in JOB_KEYS if name in degrees}
    with suppress(KeyError, ValueError):  # the reader of jobs says what is no number
        job["alpha"] = float(str(job["alpha"]))
    return Source(where, json.dumps({"name": "job", **job, "parallelism": degrees}), numbered=False)
