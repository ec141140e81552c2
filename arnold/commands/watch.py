"""``arnold watch``: the nodes of each running gang compared, slow ones annotated, gangs that stand still looked at."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arnold.commands.health_peers import record_findings, stopped_by_sigterm, tell_round
from arnold.options.cluster_options import KUBERNETES
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of, takes
from arnold.options.peers_options import asks_prometheus
from arnold.options.shared_options import STORE_HELP, yes_option
from ground.errors import ArnoldError, InvalidInput
from health.peers.sample_sources import StallPlan

if TYPE_CHECKING:
    from arnold.documents.kubernetes_answers import GangsWatchedDocument, StandingGang, WatchedGang
    from extender.cluster_api.client import ClusterApi
    from extender.cluster_api.connect import WhichCluster
    from extender.gangs.types import GangKey
    from extender.incidents import GangSeen
    from extender.plans.gang_history import GangHistory, GangIncident
    from extender.plans.gang_plan import GangPlan
    from health.peers.comparison import ComparisonSettings
    from health.peers.sample_sources import WatchPlan
    from health.peers.standstill import Headway
    from health.peers.watch import Endpoint
    from topology.flags import NodeFlag


@click.command("watch", cls=JsonCommand, document="arnold.documents.kubernetes_answers:GangsWatchedDocument")
@click.option(
    "--cluster",
    default=KUBERNETES,
    metavar="kube:[CONTEXT]",
    show_default="kube: the current context, or the pod's cluster",
    help="Live cluster whose gangs are watched, and whose nodes are annotated.",
)
@asks_prometheus
@file_option("--store", required=True, help=STORE_HELP)
@options_of(StallPlan)
@click.option("--once", is_flag=True, help="Make one round and end; exit 2 where nothing could be judged.")
@yes_option
@takes(stalls=StallPlan)
def command(
    *,
    as_json: bool,
    cluster: str,
    endpoint: Endpoint,
    plan: WatchPlan,
    settings: ComparisonSettings,
    store: str,
    stalls: StallPlan,
    once: bool,
    yes: bool,
) -> None:
    """Compare the nodes of each running gang by what a Prometheus server has of them, and annotate the slow ones.

    Each round makes one comparison a bound gang, the nodes from its GangPlan, until SIGTERM. A node that is slower than
    its peers is priced by that factor; one whose hardware fails is faulty. The rules of the store say when a flag
    begins and ends, annotations follow the store, and new gangs heed them. A round that would take too many nodes out
    of use changes nothing (--yes). With --progress, gangs that stand still are looked at more often: the nodes that
    hold them up are flagged, and every step is kept in the GangHistory of the namespace. With --json, each round is one
    document on one line.

    $ arnold watch --cluster kube: --prometheus http://prometheus:9090 --store flags.db
    $ arnold watch --cluster kube:prod --prometheus $URL --store flags.db --once --json
    $ arnold watch --prometheus $URL --store flags.db --progress 'max by (node, gpu) (training_steps)' --policy act
    """
    from extender.cluster_api.connect import WhichCluster

    if not cluster.startswith(KUBERNETES):
        raise InvalidInput(f"{cluster!r} is no live Kubernetes", where="--cluster", fix="write kube: or kube:CONTEXT")
    watch = GangWatch(
        WhichCluster(context=cluster.removeprefix(KUBERNETES) or None), endpoint, plan, settings, stalls, store, yes=yes
    )
    record_findings(store, (), now=datetime.now(UTC))  # one that cannot be written to is told of before anything
    with stopped_by_sigterm() as stop:
        due = 0.0  # when the nodes are compared next, by the steady clock
        while not stop.is_set():
            begun = time.monotonic()
            compares = begun >= due
            document = watch.round(datetime.now(UTC), compares=compares)
            if compares:
                # what is away is asked again sooner
                due = begun + (plan.every if document.error is None else plan.every / 8)
            if compares or document.stalls or document.error is not None:
                tell_round(document, as_json=as_json)
            if once:
                raise click.exceptions.Exit(2 if document.error else 0)
            look = begun + stalls.every if stalls.progress else due
            stop.wait(max(0.0, min(due, look) - time.monotonic()))


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
        from arnold.console.output import error_document
        from arnold.documents.kubernetes_answers import GangsWatchedDocument, StandingGang, WatchedGang
        from extender.cluster_api.connect import ask_cluster
        from extender.incidents import GangSeen, list_histories
        from extender.live_cluster import list_plans
        from extender.node_flags import FlagChange, on_cluster
        from extender.plans.gang_plan import PlanPhase
        from topology.flag_sources import Breaker, open_log
        from topology.flags import FAULTY

        watched, changes, strangers = list[WatchedGang](), list[FlagChange](), list[str]()
        standing, seen = list[StandingGang](), list[GangSeen]()
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
                    seen = self._seen(gangs, flags, histories, now)
                except ArnoldError as error:  # nodes are compared all the same
                    failed = error_document(error).error
            try:
                watched = self._compared(gangs, flags, now) if compares else []
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
        return GangsWatchedDocument(now, tuple(watched), tuple(standing), recorded, done, tuple(strangers), failed)

    def _compared(
        self, gangs: Sequence[tuple[GangPlan, list[str]]], flags: list[NodeFlag], now: datetime
    ) -> list[WatchedGang]:
        """Compare the nodes of each gang, and add what is held against them to the flags."""
        from arnold.documents.kubernetes_answers import WatchedGang
        from health.peers.comparison import detect
        from health.peers.verdict import judge, priced
        from health.peers.watch import asked

        compared, watched = {name for _, nodes in gangs for name in nodes}, list[WatchedGang]()
        if compared:
            recording = asked(self.endpoint, replace(self.plan, machines=compared), until=now.timestamp())
        for gang, nodes in gangs:
            try:
                of_gang = recording.only(nodes)
                verdict = judge(of_gang, list(detect(of_gang, self.settings)))
                flags += [priced(flag, verdict) for flag in verdict.flags]
                watched.append(WatchedGang(*gang.key, len(nodes), verdict.verdict, judged=True))
            except ArnoldError as error:
                watched.append(WatchedGang(*gang.key, len(nodes), error.message, judged=False))
        return watched

    def _seen(
        self,
        gangs: Sequence[tuple[GangPlan, list[str]]],
        flags: list[NodeFlag],
        histories: Mapping[str, GangHistory],
        now: datetime,
    ) -> list[GangSeen]:
        """Look how far each gang has come, and add what is held against nodes that hold one up to the flags."""
        from extender.incidents import GangSeen
        from health.peers.standstill import PROGRESS, Headway, progress_of, standstill_flags

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
        for gang, nodes in gangs:
            try:
                progress = progress_of(recording.only(nodes), nodes, until=until, quiet=quiet)
            except ArnoldError as error:
                progress = Headway(None, error.message)
            dumped: list[NodeFlag] = []
            try:
                dumped = self._dumped(gang, progress, now) if progress.stands else []
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

    def _dumped(self, gang: GangPlan, progress: Headway, now: datetime) -> list[NodeFlag]:
        """Return what dumps of a gang that stands still hold against its nodes."""
        from health.collectives.flagging import flags_of_dumps

        if self.stalls.dumps is None or progress.since is None or not gang.spec.gpus_per_pod:
            return []
        nodes, processes = gang.node_of_rank, gang.spec.gpus_per_pod
        dumped = flags_of_dumps(
            Path(self.stalls.dumps, *gang.key),
            lambda rank: nodes.get(rank // processes),
            since=progress.since,
            rest=self.stalls.every,
            now=now,
        )
        # rank 3 of another job is another program; when it began and ends is told as of other standstills
        return [replace(flag, source=f"dumps of {gang.key}", since=progress.since, until=None) for flag in dumped]

    def _told(
        self, seen: Sequence[GangSeen], histories: Mapping[str, GangHistory], out: Collection[str], now: datetime
    ) -> list[StandingGang]:
        """Keep the chains of evidence, act by the policy, and return what is new."""
        from arnold.documents.kubernetes_answers import StandingGang
        from extender.cluster_api.connect import ask_cluster
        from extender.incidents import keep_incidents

        acts, budget = self.stalls.policy == "act", self.stalls.budget

        async def keep(api: ClusterApi) -> list[tuple[GangKey, GangIncident]]:
            return await keep_incidents(api, seen, histories, out=out, acts=acts, budget=budget, now=now)

        return [StandingGang.of(key.namespace, incident) for key, incident in ask_cluster(self.which, keep)]
