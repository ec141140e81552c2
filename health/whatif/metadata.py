"""What the metadata file says of a traced job: its sizes."""

from __future__ import annotations

from dataclasses import dataclass

from topology.documents import Document, load_document
from topology.errors import TraceFormatError
from topology.files import Source

LARGEST = 1_000_000  # Largest size of anything: more GPUs than any job has


@dataclass(frozen=True, slots=True)
class JobSizes:
    """Sizes of a job's parallel groups."""

    dp: int  # data-parallel ranks
    pp: int  # pipeline stages
    tp: int = 1  # tensor-parallel ranks
    vpp: int = 1  # model chunks of a stage
    dsp: int = 1  # how many ranks share one sequence
    world: int = 0  # GPUs of the job
    source: str = ""  # the file that says so; empty = inferred from the rows


def read_metadata(source: Source) -> JobSizes:
    """Read ``dp_size``, ``pp_size`` and, where given, ``tp_size``, ``vpp_size``, ``dsp_size``, ``world_size``.

    :raises TraceFormatError: a size is missing or not a positive whole number, or the sizes contradict each other.
    :raises InvalidInput: not YAML or JSON.
    """
    document = load_document(source)
    if not isinstance(document.data, dict):
        raise TraceFormatError("is not a mapping of sizes", where=source.name, fix="write lines such as `dp_size: 4`")
    size = {key: _size(document, f"{key}_size") for key in ("dp", "pp", "tp", "vpp", "dsp")}
    product = size["dp"] * size["pp"] * size["tp"]
    world = _size(document, "world_size", default=product * size["dsp"])
    if world not in (product, product * size["dsp"]):
        raise TraceFormatError(
            f"world_size is {world}, and dp {size['dp']} x pp {size['pp']} x tp {size['tp']} x dsp {size['dsp']} "
            f"makes {product * size['dsp']}",
            where=document.where("world_size"),
            fix="correct the size that is wrong",
        )
    return JobSizes(**size, world=world, source=source.name)


def _size(document: Document, key: str, *, default: int = 1) -> int:
    value = document.data.get(key)
    if value is None and key not in ("dp_size", "pp_size"):
        return default
    if value is None:
        raise TraceFormatError(f"{key} is missing", where=document.source.name, fix=f"add a line such as `{key}: 4`")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise TraceFormatError(
            f"{key} is {str(value)[:40]!r}, not a whole number from 1 to {LARGEST:,}",
            where=document.where(key),
            fix=f"write a number, such as `{key}: 4`",
        )
    return value
