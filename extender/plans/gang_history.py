"""Histories: what is remembered of gangs that ended, and how long those will run that do not say it.

How long they ran is stored by name pattern and size, as one ``GangHistory`` in each namespace where a gang has ended,
beside the GangPlans, and goes with its namespace: what a tenant runs takes no room from others.  Sums are stored
(:class:`scheduler.queue.run_times.RunTimes`), so it is as small after a million gangs as after a hundred.

Predictions follow the rule of ``arnold simulate --predictor history`` (:mod:`scheduler.queue.run_times`) and know what
the GangHistories say, so every replica foresees the same, and so does one that has just started.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from math import log
from typing import Annotated, Any, Self

import msgspec

from extender.gangs.types import Gang, GangKey
from extender.kubernetes_names import GROUP, HISTORY_KIND, HISTORY_NAME, VERSION
from extender.plans.custom_resource import Instant, StoredObject, StoredPart, decode_resource, written
from extender.plans.gang_plan import GangPlan, canonical_uid
from extender.texts import clip
from scheduler.queue.run_times import Likeness, Prediction, RunTimeHistory, RunTimes, foreseen

MOST_KINDS = 256  # kinds of gangs of one namespace; of more, those that ended longest ago are forgotten: some 50 kB
LONGEST_PATTERN = 63  # bytes of a name pattern, as many as a label may have
MOST_COUNTED = 1_000  # plans that were counted last: far more than ever wait for their deletion; 40 kB
MOST_INCIDENTS = 50  # of one namespace, at 20 steps of 300 bytes: 300 kB at most, and a tenth as a rule
MOST_STEPS = 20  # of an incident
LONGEST_STEP = 300  # bytes of what a step says
EVICTED, WITHHELD, RESUMED, GONE = "Evicted", "Withheld", "Resumed", "Gone"  # Steps that something follows from
ENDS = frozenset({RESUMED, GONE})
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

    def __post_init__(self) -> None:
        """Refuse what :meth:`GangHistory.learnt` never makes: a forged one must not reach the queue."""
        sums, most = self.run_times, log(LONGEST)
        # 1 leaves room for rounding; no distance from a mean is larger than the range
        sound = sums.jobs >= 1 and 0.0 < sums.seconds <= LONGEST + 1 and -1.0 <= sums.logs <= most + 1
        sound = sound and 0.0 <= sums.squares <= sums.jobs * (most + 1) ** 2
        if not sound or self.pattern != clip(self.pattern, LONGEST_PATTERN):
            raise ValueError(f"no gangs run so: {clip(self.pattern, LONGEST_PATTERN)!r}")


class IncidentStep(StoredPart, frozen=True, kw_only=True):
    """One link of a chain of evidence."""

    at: Instant
    did: str  # one word in CamelCase, as the reason of an Event
    why: str


class GangIncident(StoredPart, frozen=True, kw_only=True):
    """A gang that stood still: what was seen, what was done about it, and what came of it, step by step."""

    gang: str
    since: Instant  # when it stood still
    nodes: tuple[str, ...] = ()  # that hold it up; empty = not known
    ranks: tuple[int, ...] = ()  # the first rank on each, as the plan was then
    steps: Annotated[tuple[IncidentStep, ...], msgspec.Meta(max_length=MOST_STEPS)] = ()

    @property
    def over(self) -> bool:
        """Whether the gang moves again, or is gone."""
        return bool(self.steps) and self.steps[-1].did in ENDS

    @property
    def answer(self) -> IncidentStep | None:
        """What was done about it by the policy act, or why nothing was."""
        return self.did(EVICTED) or self.did(WITHHELD)

    def did(self, what: str) -> IncidentStep | None:
        """Return the last step of that kind."""
        return next((step for step in reversed(self.steps) if step.did == what), None)

    def then(self, at: datetime, did: str, why: str) -> Self:
        """Return the incident with one more step, unless its last of that kind said the same.

        The first is kept, and the last ones.
        """
        why, last = clip(why, LONGEST_STEP), self.did(did)
        if last is not None and last.why == why:
            return self
        step = IncidentStep(at=at.replace(microsecond=0), did=did, why=why)
        return self.replace(steps=(*self.steps[:1], *self.steps[1:][2 - MOST_STEPS :], step))


class GangHistory(StoredPart, frozen=True, kw_only=True):
    """Ended gangs of one namespace, and those that stood still."""

    namespace: str
    uid: str = ""  # empty until the object is written
    resource_version: str = ""
    # that of which a gang ended last comes last
    kinds: Annotated[tuple[AlikeGangs, ...], msgspec.Meta(max_length=MOST_KINDS)] = written(())
    # UIDs of the plans that were counted last, in the form of canonical_uid
    counted: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_COUNTED)] = written(())
    # when its gangs took the nodes of others, within an hour before the last
    preemptions: Annotated[tuple[Instant, ...], msgspec.Meta(max_length=MOST_COUNTED)] = ()
    # that which changed last comes last
    incidents: Annotated[tuple[GangIncident, ...], msgspec.Meta(max_length=MOST_INCIDENTS)] = ()

    def standing(self, gang: str) -> GangIncident | None:
        """Return the incident of a gang that is not over."""
        return next((it for it in self.incidents if it.gang == gang and not it.over), None)

    def noted(self, incident: GangIncident) -> Self:
        """Return the history with an incident as it is now; a gang has one at a time that is not over."""
        others = tuple(it for it in self.incidents if it.over or it.gang != incident.gang)
        return self.replace(incidents=(*others, incident)[-MOST_INCIDENTS:])

    def evictions_since(self, begin: datetime) -> int:
        """Return how many nodes were cleared of a gang that stood still after a moment."""
        return sum(len(it.nodes) for it in self.incidents if (step := it.did(EVICTED)) is not None and step.at > begin)

    def preempted(self, at: datetime) -> Self:
        """Return the history with one more preemption."""
        return self.replace(preemptions=(*self.preemptions_since(at - timedelta(hours=1)), at))

    def preemptions_since(self, begin: datetime) -> tuple[datetime, ...]:
        """Return when its gangs took the nodes of others after a moment."""
        return tuple(at for at in self.preemptions if at > begin)

    def learnt(self, run: EndedRun) -> Self:
        """Return the history with one more gang; itself, if that was counted before."""
        plan = canonical_uid(run.uid)
        if plan in self.counted:
            return self
        pattern = name_pattern(run.key.name)
        alike = [kind for kind in self.kinds if (kind.pattern, kind.gpus) == (pattern, run.gpus)]
        run_times = (alike[0].run_times if alike else RunTimes()).with_one(min(max(run.seconds, SHORTEST), LONGEST))
        others = tuple(kind for kind in self.kinds if kind not in alike)
        kinds = (*others, AlikeGangs(pattern=pattern, gpus=run.gpus, run_times=run_times))
        return self.replace(kinds=kinds[-MOST_KINDS:], counted=(*self.counted, plan)[-MOST_COUNTED:])


def encode_history(history: GangHistory) -> dict[str, Any]:
    """Return the GangHistory, ready to be written as JSON."""
    spec = msgspec.to_builtins(history)
    identity = {field: spec.pop(field) for field in ("uid", "resourceVersion") if field in spec}
    metadata = {"name": HISTORY_NAME, "namespace": spec.pop("namespace"), **identity}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": HISTORY_KIND, "metadata": metadata, "spec": spec}


def decode_history(raw: bytes | dict[str, Any] | StoredObject) -> GangHistory:
    """Return the history of a GangHistory, or raise ``InvalidInput``: none that Arnold wrote."""

    def in_spec(document: StoredObject) -> dict[str, Any]:
        if document.metadata.name != HISTORY_NAME:
            raise ValueError(f"it is not called {HISTORY_NAME}")
        return {**document.spec, "namespace": document.metadata.namespace or "default"}

    fix = "delete it; how long gangs run is learnt anew"
    return decode_resource(raw, GangHistory, in_spec, name=HISTORY_KIND, fix=fix)


MOST_KEPT = 10_000  # answers that are kept until another gang has ended
# Kinds of gangs whose sums are kept, at about 1 kB each: 78 namespaces with as many as one may have, 1,000 with 20
MOST_KINDS_KEPT = 20_000
LEAST_KINDS = 20  # as which a namespace counts at least: each is looked through for every answer


class GangPredictor:
    """The past of all namespaces, as far as there is room for it.

    A gang is foreseen by its own namespace and by those of which most gangs have ended: which these are follows from
    what is stored, too.
    """

    def __init__(self) -> None:
        self._histories: dict[str, GangHistory] = {}
        self._ended: dict[str, int] = {}  # gangs of each namespace that ended
        self._parts: dict[str, RunTimeHistory] = {}  # of namespaces that tell about all others
        self._outdated = False  # whether there may be other such namespaces now
        self._predictions: dict[Likeness, Prediction | None] = {}

    def put(self, history: GangHistory) -> None:
        """Take up what is stored of one namespace, in place of what was."""
        self.drop(history.namespace)
        self._histories[history.namespace] = history
        self._ended[history.namespace] = sum(kind.run_times.jobs for kind in history.kinds)

    def drop(self, namespace: str) -> None:
        """Forget a namespace."""
        for by_namespace in (self._histories, self._ended, self._parts):
            by_namespace.pop(namespace, None)
        self._outdated = True
        self._predictions.clear()

    def prediction(self, gang: Gang, plan: GangPlan | None) -> Prediction | None:
        """Return how long a gang will run that does not say it, as its plan has it, or else as ended gangs tell now.

        A plan keeps what was foreseen when its gang came, as in a replay, unless the gang is of another size now.
        """
        if gang.seconds is not None:
            return None
        job = gang.job
        if plan is not None and plan.estimate is not None:
            same = job is None or plan.spec.gpus == job.parallelism.gpus
            if same or plan.holding:
                return plan.estimate
        return None if job is None else self.predict(likeness_of(gang.key, job.parallelism.gpus))

    def predict(self, gang: Likeness) -> Prediction | None:
        """Return how long a gang will run; ``None`` = too few have ended, of any kind."""
        if gang in self._predictions:
            return self._predictions[gang]
        if len(self._predictions) >= MOST_KEPT:
            self._predictions.clear()
        if self._outdated:
            # The namespaces that tell about all others, as far as there is room for them: of too many those of which
            # most gangs have ended.  Always in the same order: the last digits of sums depend on it.
            ranked = sorted(self._histories, key=lambda name: (-self._ended[name], name))
            room = accumulate(max(LEAST_KINDS, len(self._histories[name].kinds)) for name in ranked)
            telling = sorted(name for name, taken in zip(ranked, room, strict=True) if taken <= MOST_KINDS_KEPT)
            self._parts = {name: self._parts.get(name) or _part(self._histories[name]) for name in telling}
            self._outdated = False
        own = self._histories.get(gang.owner)
        beside = [] if own is None or gang.owner in self._parts else [_part(own)]
        self._predictions[gang] = foreseen(gang, [*self._parts.values(), *beside])
        return self._predictions[gang]


def _part(history: GangHistory) -> RunTimeHistory:
    """Return the sums of one namespace, by all that makes gangs alike."""
    part = RunTimeHistory()
    for kind in history.kinds:
        part.add(Likeness(history.namespace, kind.pattern, kind.gpus), kind.run_times)
    return part
