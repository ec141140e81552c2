"""From a diagnosis to node flags: which node a member runs on, and what is certain enough to flag it.

Only what is certain becomes a flag, only where the node is known, and never for a mistake of the program.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ground.errors import InvalidInput
from ground.files import Source
from ground.rows import BadRows, CsvRows
from health.collectives.diagnosis import PROGRAM, Cause, Diagnosis, blame_sentence
from health.collectives.reading import diagnose_files, read_traces
from health.collectives.recording import Member
from topology.flags import FALSE_ALARMS, FAULTY, WARNING, FlagKind, NodeFlag
from topology.node_names import NodeNames

SOURCE = "collectives"

HOLD = timedelta(hours=24)  # How long a flag holds: long enough to look at the node, and not for ever if nobody does
KINDS: dict[Cause, FlagKind] = {
    "not-launched": "degraded",
    "not-completed": "degraded",
    "not-transmitted": "faulty",
    "not-delivered": "faulty",
    "gpu-not-ready": "faulty",
    "unreachable": "faulty",
    "slow-compute": "straggler",
    "slow-gpu": "straggler",
    "slow-transfer": "degraded",
}
"""Causes that point at a node.  A crossed order is the program's, lateness in averages has no cause yet."""

PROCESS: tuple[Cause, ...] = ("not-launched", "unreachable")
"""Causes that are about a process.  It may have failed by its program, an exception or a data loader, so that alone
they make a node dearer, until other evidence agrees; and a job of one node never tells the two apart."""

MOST_GPUS = 8  # Of a node; more ranks that all name one host name the machine that converted their records
NO_HOSTS = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1"})  # Names that every machine has


def flags_of(diagnosis: Diagnosis, node_of: Mapping[int, str], *, now: datetime) -> list[NodeFlag]:
    """Return the flags that a diagnosis justifies, one for each known node of a member; ``now`` (timezone-aware) is for
    a diagnosis without a time of its own.
    """
    if diagnosis.cause not in KINDS:
        return []
    since = datetime.fromtimestamp(diagnosis.since, UTC) if diagnosis.since is not None else now
    until = max(since, datetime.fromtimestamp(diagnosis.localised, UTC) if diagnosis.localised else since) + HOLD
    flags: dict[str, NodeFlag] = {}
    culprits = {culprit.member for culprit in diagnosis.culprits}
    for culprit in diagnosis.culprits:
        node, cause = node_of.get(culprit.member), culprit.cause or diagnosis.cause
        if culprit.certainty != "certain" or node is None or node in flags or cause not in KINDS:
            continue
        of_node = {member for member, other in node_of.items() if other == node}
        # where all processes of a node have gone, and there are several, it is the node
        whole = cause == "unreachable" and len(of_node) > 1 and of_node <= culprits
        about_process = cause in PROCESS and not whole
        if about_process and _on_one_node(diagnosis, node_of):
            continue
        # a flag of 1.0 would clear the node; where nothing was timed, the node is dearer by a warning's price
        price = WARNING if about_process or culprit.factor is None else max(1.0, culprit.factor)
        chosen: FlagKind = "degraded" if about_process else KINDS[cause]
        flags[node] = NodeFlag(
            node,
            chosen,
            slowdown=FAULTY if chosen == "faulty" else price,
            source=SOURCE,
            since=since,
            until=until,
            evidence=f"{diagnosis.members[culprit.member].label}: {blame_sentence(cause, culprit)}",
            rank=diagnosis.members[culprit.member].rank if about_process else None,
            hardware=False,
            probability=FALSE_ALARMS[SOURCE].probability if chosen == "straggler" else None,
        )
    return list(flags.values())


def flags_of_dumps(
    folder: Path, node_of_rank: Callable[[int], str | None], *, since: datetime, rest: float, now: datetime
) -> tuple[list[NodeFlag], tuple[str, ...]]:
    """Return the flags that dumps justify which a job wrote since it stands still, and what was left out; none while it
    may yet write more, as a rank without a dump would be taken for gone.

    :param node_of_rank: of a process.
    :param rest: seconds without a dump after which none is expected.
    :raises InvalidInput: they cannot be read.
    """
    times = {path: path.stat().st_mtime for path in sorted(folder.glob("*")) if path.is_file()}
    dumps = [path for path, time in times.items() if time >= since.timestamp()]
    if not dumps or max(times.values()) > now.timestamp() - rest:
        return [], ()
    sources, unread = read_traces(dumps, lenient=True)
    _, diagnosis = diagnose_files(sources, unread=unread, lenient=True)
    ranks = {i: member.rank for i, member in enumerate(diagnosis.members) if member.rank is not None}
    node_of = {i: node for i, rank in ranks.items() if (node := node_of_rank(rank)) is not None}
    return flags_of(diagnosis, node_of, now=now), diagnosis.notes


def _on_one_node(diagnosis: Diagnosis, node_of: Mapping[int, str]) -> bool:
    """Return whether all members are known to run on one node."""
    return len(node_of) == len(diagnosis.members) and len({*node_of.values()}) == 1


def one_host(members: Sequence[Member]) -> str:
    """Return the host that all of more ranks name than a node has GPUs; empty = there is none.

    It is where the records were converted or collected, and no evidence of where the ranks ran.
    """
    hosts = {member.host for member in members if member.host is not None}
    return hosts.pop() if len(hosts) == 1 and sum(member.host is not None for member in members) > MOST_GPUS else ""


def withheld(diagnosis: Diagnosis, node_of: Mapping[int, str]) -> str:
    """Return why no node is flagged although something is wrong; empty where one is, or nothing is wrong."""
    reason = ""
    if diagnosis.status == "healthy":
        return reason
    if not diagnosis.culprits:
        reason = "the evidence names no rank"
    elif diagnosis.cause in PROGRAM:
        reason = "which collectives ranks call is the program's, not a node's"
    elif not diagnosis.settled:
        reason = "the records do not show that anything stands still"
    elif diagnosis.certainty != "certain":
        reason = "the evidence does not leave one suspect alone"
    elif all(culprit.member not in node_of for culprit in diagnosis.culprits) and (host := one_host(diagnosis.members)):
        reason = (
            f"all {len(diagnosis.members)} ranks name the host {host:.60}, as where their records were converted; "
            "--node-map FILE says where they ran"
        )
    elif diagnosis.cause in PROCESS and _on_one_node(diagnosis, node_of):
        reason = "of a job on one node it is not known whether its program or the node is at fault"
    elif all(culprit.member not in node_of for culprit in diagnosis.culprits):
        reason = "the records do not say which node the rank runs on; --node-map FILE does"
    return f"no node is flagged: {reason}" if reason else ""


def nodes_of(members: Sequence[Member], source: Source | None = None) -> dict[int, str]:
    """Return member -> node, where it is known.

    :param source: CSV with the header ``rank,node``, or ``host,node`` to translate hosts as the records call them (RAS
        knows addresses, the Inspector may know other names than the scheduler); ``None`` = the hosts are the nodes,
        but for names that every machine has and the one host of more ranks than a node has.
    :raises InvalidInput: the file cannot be used.
    """
    hosts = {i: member.host for i, member in enumerate(members) if member.host is not None}
    host_of = {} if one_host(members) else {i: host for i, host in hosts.items() if host not in NO_HOSTS}
    if source is None:
        return host_of
    key, table = read_node_table(source)
    if key == "host":
        names = NodeNames(table)
        return host_of | {i: table[named] for i, host in hosts.items() if (named := names.any(host)) in table}
    return host_of | {i: table[str(m.rank)] for i, m in enumerate(members) if str(m.rank) in table}


def read_node_table(source: Source) -> tuple[str, dict[str, str]]:
    """Return of what a CSV says the node, ``rank`` or ``host``, and what it says.

    :raises InvalidInput: the file cannot be used.
    """
    rows = CsvRows(source, BadRows(lenient=None))
    if rows.header not in (("rank", "node"), ("host", "node")):
        problem = "the header is neither rank,node nor host,node"
        raise InvalidInput(problem, where=source.at(1), fix="begin the file with one of the two")
    key = rows.header[0]
    table: dict[str, str] = {}
    for line, cells in rows:
        if not all(cells) or (key == "rank" and not cells[0].isdecimal()):
            problem = f"is not a {key} and a node"
            raise InvalidInput(problem, where=source.at(line), fix="write two cells with a comma between")
        name = str(int(cells[0])) if key == "rank" else cells[0]
        if table.setdefault(name, cells[1]) != cells[1]:
            problem = f"{key} {name:.60} has another node above"
            raise InvalidInput(problem, where=source.at(line), fix="keep one of the two")
    return key, table
