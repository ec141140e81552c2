"""A cluster as one self-contained HTML page: inline drawing, tooltips, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topology.cluster import Cluster
from topology.drawing.labels import free_of, legend
from topology.drawing.layout import Layout
from topology.drawing.simplify import Shape
from topology.drawing.svg import svg_drawing
from topology.drawing.templates import OWN, render
from topology.flags import NodeFlag
from topology.states import State, node_states


def cluster_page(cluster: Cluster, layout: Layout, *, title: str, subtitle: str) -> str:
    """Return the page, its subtitle a line below the title.  Same input, same text."""
    states = node_states(cluster)
    entries = legend(states)
    drawing = svg_drawing(
        layout,
        states,
        [state.name.lower() for state in State],
        title=f"{title}: {', '.join(f'{count:,} {state.label}' for state, count in entries)}",
        note=free_of(cluster),
        tip=domain_tip(cluster),
    )
    return render(
        OWN,
        "cluster.html.j2",
        raw={"drawing": drawing},
        title=title,
        subtitle=subtitle,
        legend=[(state.name.lower(), f"{count:,}", state.label) for state, count in entries],
        data=node_data(cluster, layout),
    )


def domain_tip(cluster: Cluster) -> Callable[[Shape], str]:
    """Return what gives the tooltip of a box: its name, and how many nodes are in which state."""
    states = node_states(cluster)

    def tip(shape: Shape) -> str:
        name = " / ".join(f"{level} {name}" for level, name in zip(shape.levels, shape.names, strict=True))
        counts = ", ".join(f"{count:,} {state.label}" for state, count in legend(states[shape.nodes]))
        return f"{name or 'cluster'}\n{len(shape.nodes):,} nodes: {counts}"

    return tip


def node_data(cluster: Cluster, layout: Layout) -> dict[str, Any]:
    """Return what the script of a page knows of each square, in the order of the squares.

    Keys: ``names``, ``places`` (distinct paths of domains), ``place`` (which path), ``gpus``, ``free``, ``flags``
    (square -> sentence).
    """
    paths = [" / ".join(dict.fromkeys(cluster.node(int(i)).path)) for i in layout.nodes]
    places = list(dict.fromkeys(paths))
    number = {path: i for i, path in enumerate(places)}
    return {
        "names": [cluster.names[i] for i in layout.nodes],
        "places": places,
        "place": [number[path] for path in paths],
        "gpus": cluster.gpus[layout.nodes].tolist(),
        "free": cluster.free_gpus[layout.nodes].tolist(),
        "flags": {
            str(i): flag_sentence(cluster.flags[int(node)])
            for i, node in enumerate(layout.nodes)
            if int(node) in cluster.flags
        },
    }


def flag_sentence(flag: NodeFlag) -> str:
    """Return a flag in one line: ``"straggler, 1.35x slower (cluster file)"``."""
    degree = "faulty" if flag.kind == "faulty" else f"{flag.kind}, {flag.slowdown:g}x the time"
    source = f" ({flag.source})" if flag.source else ""
    evidence = f": {flag.evidence}" if flag.evidence else ""
    return f"{degree}{source}{evidence}"
