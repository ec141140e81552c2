"""A cluster as something a person wants to look at: SVG, PNG or a self-contained HTML page, of one geometry."""

from pathlib import Path

from ground.errors import InvalidInput
from ground.files import write_file
from topology.cluster import Cluster
from topology.drawing.layout import inventory, layout

FORMATS = ("svg", "png", "html")  # Kinds of files that can be drawn, known by their suffix


def draw_cluster(cluster: Cluster, output: str | Path, *, title: str = "Cluster") -> None:
    """Draw a cluster into a file with a suffix of :data:`FORMATS`, written whole or not at all."""
    kind = Path(output).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        fix = f"end the name of the file in one of {', '.join(f'.{suffix}' for suffix in FORMATS)}"
        raise InvalidInput(f"cannot draw into {Path(output).name!r}", where=str(output), fix=fix)
    write_file(output, drawing(cluster, kind, title=title))


def drawing(cluster: Cluster, kind: str, *, title: str = "Cluster") -> bytes:
    """Return the bytes of a drawing of a kind of :data:`FORMATS`.  Same input, same bytes."""
    from topology.drawing.renderers import cluster_page, figure_bytes

    subtitle = f"{inventory(cluster)}. Beside each name: nodes free for a gang / all nodes."
    if kind == "html":
        return cluster_page(cluster, layout(cluster), title=title, subtitle=subtitle).encode()
    return figure_bytes(cluster, layout(cluster), kind, title=title, subtitle=subtitle)
