"""The rounds of ``arnold watch``: gangs are compared and looked at, findings are recorded, nodes are annotated."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from arnold.console.output import error_document
from arnold.documents.kubernetes_answers import GangsWatchedDocument, StandingGang, WatchedGang
from arnold.documents.store_answers import record_findings
from extender.cluster_api.client import ClusterApi
from extender.cluster_api.connect import WhichCluster, ask_cluster
from extender.gangs.types import GangKey
from extender.incidents import GangSeen, keep_incidents, list_histories
from extender.live_cluster import list_plans
from extender.node_flags import FlagChange, on_cluster
from extender.plans.gang_history import GangHistory, GangIncident
from extender.plans.gang_plan import GangPlan, PlanPhase
from ground.errors import ArnoldError
from health.collectives.flagging import flags_of_dumps
from health.peers.comparison import ComparisonSettings, detect
from health.peers.sample_sources import StallPlan, WatchPlan
from health.peers.standstill import PROGRESS, Headway, progress_of, standstill_flags
from health.peers.verdict import judge, priced
from health.peers.watch import Endpoint, asked
from topology.flag_sources import Breaker, open_log
from topology.flags import FAULTY, NodeFlag


@dataclass(frozen=True, slots=True)
class GangWatch:
    """What a watch asks of whom, and where it writes."""

    which: WhichCluster
    endpoint: Endpoint
    plan: WatchPlan
    settings: ComparisonSettings
    stalls: StallPlan
    store: str
    yes: bool = False  # it may take more nodes out of use than the breaker lets pass

    def round(self, now: datetime, *, compares: bool = True) -> GangsWatchedDocument:
        """Make one round: look, compare, record, annotate, act; what keeps it from being whole is told, and changes
        nothing.

        :param compares: nodes are compared, too; else gangs that stand still are looked for alone.
        """
        watched, changes, strangers = list[WatchedGang](), list[FlagChange](), list[str]()
        standing, seen, notes = list[StandingGang](), list[GangSeen](), list[str]()
        recorded, failed = None, None
        try:
            gangs: list[tuple[GangPlan, list[str]]] = []
            for gang in list_plans(self.which):
                nodes = [name for name in gang.promised if self.plan.machines is None or name in self.plan.machines]
                if gang.phase is PlanPhase.BOUND and nodes:
                    gangs.append((gang, nodes))
            flags: list[NodeFlag] = []
            if self.stalls.progress:
                histories = ask_cluster(self.which, list_histories)
                try:
                    seen = self._seen(gangs, flags, notes, histories, now)
                except ArnoldError as error:  # nodes are compared all the same
                    failed = error_document(error).error
            try:
                watched = self._compared(gangs, flags, notes, now) if compares else []
            except ArnoldError as error:  # who stands still is told all the same
                failed, compares = error_document(error).error, False
            if not self.yes:
                Breaker(sum(len(nodes) for _, nodes in gangs)).check(flags, where="arnold watch")
            recorded = record_findings(self.store, flags, now=now) if compares or flags else None
            with open_log(self.store) as log:
                held, slowdowns = log.holding(now), log.slowdowns()
            if compares or flags:
                changes, strangers = on_cluster(
                    self.which, lambda nodes: nodes.sync(held, known=slowdowns, now=now), yes=self.yes
                )
            out = {flag.node for flag in held if flag.slowdown == FAULTY}
            if self.stalls.progress:
                standing = self._told(seen, histories, out, now)
        except ArnoldError as error:
            failed = error_document(error).error
        done = tuple(change for change in changes if change.done != "unchanged")
        return GangsWatchedDocument(
            now,
            tuple(watched),
            tuple(standing),
            recorded,
            done,
            tuple(strangers),
            tuple(dict.fromkeys(notes)),
            failed,
        )

    def _compared(
        self, gangs: Sequence[tuple[GangPlan, list[str]]], flags: list[NodeFlag], notes: list[str], now: datetime
    ) -> list[WatchedGang]:
        """Compare the nodes of each gang, and add what is held against them to the flags, what was left out to the
        notes.
        """
        compared, watched = {name for _, nodes in gangs for name in nodes}, list[WatchedGang]()
        if compared:
            recording = asked(self.endpoint, replace(self.plan, machines=compared), until=now.timestamp())
            notes += recording.notes
        for gang, nodes in gangs:
            try:
                of_gang = recording.only(nodes)
                verdict = judge(of_gang, list(detect(of_gang, self.settings)))
                flags += [priced(flag, verdict) for flag in verdict.flags]
                own = verdict.notes[len(recording.notes) :]
                watched.append(WatchedGang(*gang.key, len(nodes), verdict.verdict, judged=True, notes=own))
            except ArnoldError as error:
                watched.append(WatchedGang(*gang.key, len(nodes), error.message, judged=False))
        return watched

    def _seen(
        self,
        gangs: Sequence[tuple[GangPlan, list[str]]],
        flags: list[NodeFlag],
        notes: list[str],
        histories: Mapping[str, GangHistory],
        now: datetime,
    ) -> list[GangSeen]:
        """Look how far each gang has come, and add what is held against nodes that hold one up to the flags, what was
        left out to the notes.
        """
        quiet, until, acts = self.stalls.stall_after, now.timestamp(), self.stalls.policy == "act"
        seen = list[GangSeen]()
        if not gangs:
            return seen
        recording = self.endpoint.fetch(
            {PROGRESS: self.stalls.progress or ""},
            start=until - 3.0 * quiet,
            end=until,
            step=quiet / 20.0,
            labels=self.plan.labels,
        )
        notes += recording.notes
        for gang, nodes in gangs:
            try:
                progress = progress_of(recording.only(nodes), nodes, until=until, quiet=quiet)
            except ArnoldError as error:
                progress = Headway(None, error.message)
            dumped: list[NodeFlag] = []
            try:
                dumped = self._dumped(gang, progress, notes, now) if progress.stands else []
            except ArnoldError as error:
                progress = replace(progress, words=f"{progress.words}; its dumps: {error.where}: {error.message}")
            if dumped:  # they tell collective by collective, and outrank counters
                progress = replace(progress, suspects={flag.node: flag.evidence for flag in dumped})
            history = histories.get(gang.key.namespace)
            known = None if history is None else history.standing(gang.key.name)
            # once is enough: a minute later it is the same finding
            if known is None or not known.nodes or (acts and known.answer is None):
                source = f"standstill of {gang.key}"
                if dumped and not acts:
                    flags += dumped
                else:
                    flags += standstill_flags(progress, gang.rank_of_node, source=source, moves=acts)
            seen.append(GangSeen(gang, progress.stands, progress.since, progress.words, progress.suspects))
        return seen

    def _dumped(self, gang: GangPlan, progress: Headway, notes: list[str], now: datetime) -> list[NodeFlag]:
        """Return what dumps of a gang that stands still hold against its nodes; add what limits that to the notes."""
        if self.stalls.dumps is None or progress.since is None or not gang.spec.gpus_per_pod:
            return []
        nodes, processes = gang.node_of_rank, gang.spec.gpus_per_pod
        dumped, limits = flags_of_dumps(
            Path(self.stalls.dumps, *gang.key),
            lambda rank: nodes.get(rank // processes),
            since=progress.since,
            rest=self.stalls.every,
            now=now,
        )
        notes += (f"dumps of {gang.key}: {limit}" for limit in limits)
        # rank 3 of another job is another program; when it began and ends is told as of other standstills
        return [replace(flag, source=f"dumps of {gang.key}", since=progress.since, until=None) for flag in dumped]

    def _told(
        self, seen: Sequence[GangSeen], histories: Mapping[str, GangHistory], out: Collection[str], now: datetime
    ) -> list[StandingGang]:
        """Keep the chains of evidence, act by the policy, and return what is new."""
        acts, budget = self.stalls.policy == "act", self.stalls.budget

        async def keep(api: ClusterApi) -> list[tuple[GangKey, GangIncident]]:
            return await keep_incidents(api, seen, histories, out=out, acts=acts, budget=budget, now=now)

        return [StandingGang.of(key.namespace, incident) for key, incident in ask_cluster(self.which, keep)]
