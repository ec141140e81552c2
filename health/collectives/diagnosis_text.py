"""A diagnosis in words."""

from __future__ import annotations

from collections.abc import Sequence

from health.collectives.diagnosis import Cause, Diagnosis

CAUSES: dict[Cause, str] = {
    "none": "nothing is wrong",
    "not-launched": "it never launched a collective that its whole group waits for",
    "not-transmitted": "data are ready and not transmitted: the sender's network card, or a receiver without room",
    "not-delivered": "data are transmitted and not delivered: the receiver's network card, or the way to it",
    "gpu-not-ready": "its GPU has all it needs and makes nothing ready",
    "crossed-order": "ranks entered collectives in different orders and wait for one another: the program's mistake",
    "unreachable": "it is dead or does not answer",
    "late": "it spends far less time in its collectives than the others of its group, so it comes last",
    "slow-compute": "it works longer than its peers before each collective: a slow GPU or host",
    "slow-transfer": "transfers with it take longer, and flows wait at it: its network card, or the GPU behind it",
    "slow-gpu": "its GPU hands over chunks slowly inside collectives",
    "unknown": "the records do not show the cause",
}

DOUBT = {"certain": "", "likely": "likely ", "possible": "possibly "}


def verdict(diagnosis: Diagnosis) -> str:
    """Return what happened and who is to blame, in one or two sentences."""
    if diagnosis.status == "healthy":
        if not diagnosis.settled:
            return "nothing shows that a collective stands still or that a rank is behind"
        return "no collective stands still and no watched rank has become slow"
    what = "the job stands still" if diagnosis.status == "failure" else "the job has become slow"
    if not diagnosis.settled:
        what = "some ranks are behind" if diagnosis.status == "failure" else "some ranks come late"
    where = f", first in {_few([diagnosis.all_groups[g].name for g in diagnosis.groups])}" if diagnosis.groups else ""
    if not diagnosis.culprits:
        return f"{what}{where}; nobody can be named: {blame_sentence(diagnosis)}"
    names = _few([_place(diagnosis, culprit.member) for culprit in diagnosis.culprits], last=" or ")
    if diagnosis.cause == "unreachable":
        names = _few([_place(diagnosis, culprit.member) for culprit in diagnosis.culprits])
    if not diagnosis.settled:
        return f"{what}{where}: {DOUBT[diagnosis.certainty or 'possible']}{names}, as {blame_sentence(diagnosis)}"
    return f"{what}{where}; to blame is {DOUBT[diagnosis.certainty or 'possible']}{names}: {blame_sentence(diagnosis)}"


def blame_sentence(diagnosis: Diagnosis) -> str:
    """Return the cause in words, with the factor where there is one."""
    factor = diagnosis.culprits[0].factor if diagnosis.culprits else None
    return CAUSES[diagnosis.cause] + (f" ({factor:.1f} times)" if factor is not None else "")


def _place(diagnosis: Diagnosis, member: int) -> str:
    found = diagnosis.members[member]
    return f"{found.label} on {found.host}" if found.host and found.host not in found.label else found.label


def _few(names: Sequence[str], *, last: str = " and ", most: int = 4) -> str:
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return ", ".join(shown[:-1]) + last + shown[-1] if len(shown) > 1 else shown[0]
