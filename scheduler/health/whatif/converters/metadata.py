"""The metadata of a job: how many ranks of which kind."""

from __future__ import annotations

from scheduler.health.whatif.converters.layout import RankLayout
from topology.documents import load_document
from topology.errors import InvalidInput
from topology.files import Source

MOST = 1 << 20
"""Ranks of a job at most."""


def read_layout(source: Source) -> RankLayout:
    """Read the metadata file: ``dp_size``, and where not 1 ``pp_size``, ``tp_size``, ``dsp_size``, ``vpp_size``.

    :raises InvalidInput: not a mapping, a size that is none, a ``world_size`` that contradicts the others.
    """
    document = load_document(source)
    data = document.data
    if not isinstance(data, dict) or "dp_size" not in data:
        raise InvalidInput(
            "does not describe a job's parallelism",
            where=source.name,
            fix="write dp_size, pp_size, tp_size and vpp_size, one a line",
        )

    def size(key: str) -> int:
        value = data.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
            raise InvalidInput(f"{key} is not a size: {value!r}", where=document.where(key), fix="give a whole number")
        return value

    layout = RankLayout(
        dp=size("dp_size"), dsp=size("dsp_size"), pp=size("pp_size"), tp=size("tp_size"), vpp=size("vpp_size")
    )
    if data.get("world_size", layout.world_size) != layout.world_size or layout.world_size > MOST:
        raise InvalidInput(
            f"world_size {data.get('world_size')} is not dp x dsp x pp x tp = {layout.world_size}",
            where=document.where("world_size"),
            fix="correct the sizes",
        )
    return layout
