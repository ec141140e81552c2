"""What is remembered of gangs that ended: how long they ran, by name pattern and size, for each namespace.

It is stored as one ``GangHistory`` in each namespace where a gang has ended, beside the GangPlans, and goes with its
namespace: what a tenant runs takes no room from others.  Sums are stored (:class:`scheduler.queue.run_times.RunTimes`),
so it is as small after a million gangs as after a hundred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Annotated, Any

import msgspec

from extender.gangs.types import GangKey
from extender.kubernetes_names import GROUP, HISTORY_KIND, HISTORY_NAME, VERSION
from extender.plans.custom_resource import StoredObject, StoredPart, written
from extender.plans.gang_plan import canonical_uid
from extender.texts import clip
from ground.errors import InvalidInput
from scheduler.queue.run_times import Likeness, RunTimes

MOST_KINDS = 256  # kinds of gangs of one namespace; of more, those that ended longest ago are forgotten: some 50 kB
LONGEST_PATTERN = 63  # bytes of a name pattern, as many as a label may have
MOST_COUNTED = 1_000  # plans that were counted last: far more than ever wait for their deletion; 40 kB
MOST_GPUS = 2**53  # beyond it JSON has not every whole number
SHORTEST, LONGEST = 1.0, 1e9  # seconds that a gang is taken to run: the API server has whole ones; some 30 years

# what generateName appends: 5 of these, no vowels, so hardly a word; and hashes, which have a digit in them
_GENERATED = re.compile(r"(?<=[-.])(?:[bcdfghjklmnpqrstvwxz2456789]{5}|(?=[a-f]*[0-9])[0-9a-f]{7,64})(?![^-.])")
_DIGITS = re.compile(r"[0-9]+")


@lru_cache(4096)
def name_pattern(name: str) -> str:
    """Return what gangs that are submitted again and again have in common: ``llm-7`` and ``llm-12`` are ``llm-#``.

    Each number becomes ``#``, and so does what Kubernetes or a hash made up (``llm-x7k2p``).
    """
    return clip(_DIGITS.sub("#", _GENERATED.sub("#", name)), LONGEST_PATTERN)


def likeness_of(key: GangKey, gpus: int) -> Likeness:
    """Return what a gang is like: its namespace, its name pattern and its GPUs in all."""
    return Likeness(key.namespace, name_pattern(key.name), gpus)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How long a gang ran that has ended."""

    key: GangKey
    uid: str  # of its plan: it is counted once
    gpus: int  # in all
    seconds: float


class AlikeGangs(StoredPart, frozen=True, kw_only=True):
    """Ended gangs of one name pattern and size."""

    pattern: str
    gpus: Annotated[int, msgspec.Meta(ge=0, le=MOST_GPUS)]  # in all
    run_times: RunTimes


class GangHistory(StoredPart, frozen=True, kw_only=True):
    """Ended gangs of one namespace."""

    namespace: str
    uid: str = ""  # empty until the object is written
    resource_version: str = ""
    kinds: tuple[AlikeGangs, ...] = written(())  # that of which a gang ended last comes last
    counted: tuple[str, ...] = written(())  # UIDs of the plans that were counted last, in the form of canonical_uid

    def learnt(self, run: EndedRun) -> GangHistory:
        """Return the history with one more gang; itself, if that was counted before."""
        plan = canonical_uid(run.uid)
        if plan in self.counted:
            return self
        pattern = name_pattern(run.key.name)
        alike = [one for one in self.kinds if (one.pattern, one.gpus) == (pattern, run.gpus)]
        run_times = (alike[0].run_times if alike else RunTimes()).with_one(min(max(run.seconds, SHORTEST), LONGEST))
        others = tuple(one for one in self.kinds if one not in alike)
        kinds = (*others, AlikeGangs(pattern=pattern, gpus=run.gpus, run_times=run_times))
        return self.replace(kinds=kinds[-MOST_KINDS:], counted=(*self.counted, plan)[-MOST_COUNTED:])


def encode_history(history: GangHistory) -> dict[str, Any]:
    """Return the GangHistory, ready to be written as JSON."""
    found = msgspec.to_builtins(history)
    identity = {field: found.pop(field) for field in ("uid", "resourceVersion") if field in found}
    metadata = {"name": HISTORY_NAME, "namespace": found.pop("namespace"), **identity}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": HISTORY_KIND, "metadata": metadata, "spec": found}


def decode_history(raw: bytes | dict[str, Any]) -> GangHistory:
    """Return the history of a GangHistory, or raise ``InvalidInput``: none that Arnold wrote."""
    where = ""
    try:
        found = _decoder.decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, StoredObject)
        meta = found.metadata
        where = f"{meta.namespace}/{meta.name}"
        identity = {"namespace": meta.namespace or "default", "uid": meta.uid, "resourceVersion": meta.resource_version}
        history = msgspec.convert({**found.spec, **identity}, GangHistory)
        _check(history, meta.name)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        fix = "delete it; how long gangs run is learnt anew"
        raise InvalidInput(f"{HISTORY_KIND} cannot be read: {error}", where=where, fix=fix) from None
    return history


def _check(history: GangHistory, name: str) -> None:
    """Raise ``ValueError`` for what :meth:`GangHistory.learnt` never makes: a forged one must not reach the queue."""
    if name != HISTORY_NAME:
        raise ValueError(f"it is not called {HISTORY_NAME}")
    if len(history.kinds) > MOST_KINDS or len(history.counted) > MOST_COUNTED:
        raise ValueError("it is too long")
    for one in history.kinds:
        sums, most = one.run_times, log(LONGEST)
        # 1 leaves room for rounding; no distance from a mean is larger than the range
        sound = sums.jobs >= 1 and 0.0 < sums.seconds <= LONGEST + 1 and -1.0 <= sums.logs <= most + 1
        sound = sound and 0.0 <= sums.squares <= sums.jobs * (most + 1) ** 2
        if not sound or one.pattern != clip(one.pattern, LONGEST_PATTERN):
            raise ValueError(f"no gangs run so: {clip(one.pattern, LONGEST_PATTERN)!r}")


_decoder = msgspec.json.Decoder(StoredObject)
