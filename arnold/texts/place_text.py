"""A placement for a person: the verdict first, then where the cells are, then what could be had instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from arnold.console.output import BAD, GOOD, SO_SO, print_rows, print_sentences
from ground.quantities import decimal, plural
from scheduler.job import FAMILIES
from scheduler.objective import objective_of
from scheduler.placement.admission import typed
from topology.cluster import count_nodes
from topology.flags import in_words
from topology.node_names import spell_names

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.place_answer import PlaceDocument
    from scheduler.outcome import Instance, Outcome
    from topology.cluster import IntArray
    from topology.flags import NodeFlag

LONGEST = 40  # Most rows of a table on a terminal
LONGEST_NAMES = 72  # Most characters of a list of nodes
LONGEST_FLAGS = 8  # Most flags that are told one by one
BAR = 10  # Characters of the bar of a domain of which all is taken
COLOURS = {"optimal": GOOD, "feasible": SO_SO}

EMPTY = {True: "It would fit if the cluster were empty.", False: "It would not fit even if the cluster were empty."}


def print_placement(out: Console, instance: Instance, outcome: Outcome, document: PlaceDocument) -> None:
    """Print all of it."""
    from rich.text import Text

    print_head(out, instance)
    whole = "" if document.run_seconds is None else f"; {document.run_seconds:.2f} s in all"
    seconds = f"  ({outcome.algorithm}, {document.solve_seconds:.2f} s{whole})"
    out.print()
    out.print(Text(outcome.verdict, COLOURS.get(outcome.status, BAD)) + Text(seconds, "dim"))
    if outcome.proposal.nodes is not None and outcome.evaluation is not None:
        _print_domains(out, instance, outcome, outcome.proposal.nodes)
        print_pareto(out, instance, outcome)
        levels = [(level, *(of[family] for family in FAMILIES)) for level, of in document.spread_by_level.items()]
        print_rows(out, ("largest spread at", *FAMILIES), levels, title="Every level and family")
        print_sentences(out, "Of equal objectives", list(_tie_sentences(document)))
        lists = {"left out": document.avoided, "in use": document.used_flagged}
        lines = [
            f"{len(names)} {words}: {spell_names(names, most=LONGEST_NAMES)}" for words, names in lists.items() if names
        ]
        print_sentences(out, "Flagged nodes", [*lines, *flag_sentences(document.flags)])
    elif document.status == "infeasible":
        if document.would_fit_if_empty is not None:
            kept_out = instance.cluster.kept_out
            but = f", without the {plural(len(kept_out), 'node')} that it is kept out of" if kept_out else ""
            out.print(EMPTY[document.would_fit_if_empty].removesuffix(".") + but + ".")
        out.print("`arnold explain` with the same options shows what would have to change.")
    else:
        out.print("A longer --time-limit may help.")
    print_sentences(out, "Slow nodes", [price.sentence for price in document.prices])
    print_sentences(out, "Types of GPU", [type_.sentence for type_ in document.types if len(document.types) > 1])
    print_sentences(out, "Notes", document.notes)


def _tie_sentences(document: PlaceDocument) -> Iterator[str]:
    """Yield what decides between equal objectives, in order, and whether it is known to be least."""
    if document.ep is not None:
        least = "the least with this objective, proved" if document.ep.proved else "not proved to be the least"
        yield f"{document.level}: EP spread {document.ep.spread}, {least}"
    for level, found in document.closer.items():
        least = "the least with this objective, proved" if found.proved else "not proved to be the least"
        yield f"{level}: DP spread {found.dp}, PP spread {found.pp}, {least}"


def print_head(out: Console, instance: Instance) -> None:
    """Print one line about the job, one about the cluster."""
    from rich.text import Text

    job, cluster, level = instance.job, instance.cluster, instance.level
    grid = job.grid
    size = f": {grid.rows} x {grid.columns} cells, {grid.cells:,} nodes of {job.gpus_per_node} GPUs; "
    out.print(Text(job.name, "bold") + Text(size + f"alpha {decimal(job.alpha)}, beta {decimal(job.beta)}"))
    out.print(
        f"{instance.source}: {len(cluster):,} nodes, {int(instance.usable.sum()):,} usable; "
        f"spread counts {plural(len(level), level.name)}"
    )


def print_pareto(out: Console, instance: Instance, outcome: Outcome) -> None:
    """Print the corners of the trade between the two spreads."""
    points, evaluation = outcome.proposal.corners, outcome.evaluation
    if not points or evaluation is None:
        return
    cost_at = f"at alpha {decimal(instance.job.alpha)}"
    here = [(point.dp, point.pp) == (evaluation.dp, evaluation.pp) for point in points]
    rows = []
    for point, this in zip(points, here, strict=True):
        remark = ("this one" if this else "") + ("" if point.proved else " (not proved)")
        cost = decimal(objective_of(instance.job, point.dp, point.pp))
        rows.append((point.dp, point.pp, cost, remark.strip()))
    title, bold = "Trade between the spreads", [i for i, this in enumerate(here) if this]
    print_rows(out, ("DP spread", "PP spread", cost_at, ""), rows, title=title, left=[""], bold=bold)


def _print_domains(out: Console, instance: Instance, outcome: Outcome, nodes: IntArray) -> None:
    cluster, level = instance.cluster, instance.level
    domain = level.domain_of[nodes]
    cells = np.bincount(domain.ravel(), minlength=len(level))
    of_types = instance.usable
    for option in outcome.types:
        if option.chosen:
            of_types = of_types & typed(cluster, option.gpu_types)
    usable = count_nodes(level, of_types)
    used = sorted(np.flatnonzero(cells), key=lambda k: (-cells[k], level.domains[k]))
    title = f"Cells in {plural(len(used), level.name)}"
    rows = list[tuple[object, ...]]()
    for k in used[:LONGEST]:  # the fullest domains
        names = spell_names((cluster.names[i] for i in np.sort(nodes[domain == k])), most=LONGEST_NAMES)
        filled = round(BAR * cells[k] / usable[k]) if usable[k] else 0
        bar = "█" * filled + "░" * (BAR - filled)
        rows.append((level.domains[k], cells[k], usable[k], bar, names))
    if len(used) > LONGEST:
        rows.append((f"... {len(used) - LONGEST} more", cells[used[LONGEST:]].sum(), "", "", ""))
    headers = (level.name, "cells", "usable", "", "nodes")
    print_rows(out, headers, rows, title=title, left=["", "nodes"], spare=[""])


def flag_sentences(flags: Sequence[NodeFlag]) -> list[str]:
    """Return what is held against nodes, by which source and why; the slowest first, a few of them."""
    ordered = sorted(flags, key=lambda flag: (flag.kind == "faulty", -flag.slowdown, flag.node))
    lines = []
    for flag in ordered[:LONGEST_FLAGS]:
        said = f" (source: {flag.source})" if flag.source else ""
        lines.append(f"{flag.node}: {in_words(flag)}{said}" + (f": {flag.evidence}" if flag.evidence else ""))
    if len(flags) > LONGEST_FLAGS:
        lines.append(f"{len(flags) - LONGEST_FLAGS} more are in `--json`")
    return lines
