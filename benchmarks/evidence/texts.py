"""Texts as people paste them after a crash: who is named by ``arnold health look``, one text at a time."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.evidence.naming import HEADER, Naming, rows
from benchmarks.evidence.pasted_texts import PASTED, Who
from benchmarks.public_data import public_data
from benchmarks.report import section
from benchmarks.report import table as markdown
from health.look.folder import look_at_folder

PUBLISHED: dict[str, tuple[Who, ...]] = {
    "watchdog_text/wd_milabench.txt": (),
    "watchdog_text/wd_llamafactory.txt": (),
    "ras_text/ras_mismatch.txt": (),
    "kernel_log/xid119.txt": ((None, None, "0000:9b:00"),),
    "kernel_log/nccl_segfault.txt": (),
    "bandwidth_tests/pairs_nccl_tests_106.txt": (
        ("se02gn644", None, None),
        ("se02gn284", None, None),
        ("se02gn678", None, None),
    ),
    "straggler_reports/megatron_straggler.txt": (),
    "straggler_reports/straggler_report.txt": (),
    "dcgm/kops_l4.prom": (),
}
"""Public texts, and who is right by their folders' pages; of one pair either of two."""


def table(*, public: bool, **_: object) -> str:
    """Who is named, by the form of the text; of texts that convict nobody nobody may be."""
    parts = [("Written after what the tools print", list(made()))]
    if public:
        parts.append(("Published", list(published())))
    sections = [
        section(title, markdown(["form", "tool", *HEADER], list(rows("Arnold", namings)))) for title, namings in parts
    ]
    return "\n".join(["# Pasted texts: node, rank or GPU named\n", *sections])


def made() -> Iterator[Naming]:
    """The texts of :mod:`benchmarks.evidence.pasted_texts`."""
    for pasted in PASTED.values():
        with TemporaryDirectory() as folder:
            (Path(folder) / pasted.file).write_text(pasted.text)
            yield Naming(pasted.kind or "prose", frozenset(pasted.suspects), named_in(folder))


def published() -> Iterator[Naming]:
    """Excerpts of public issues and test data."""
    for name, right in PUBLISHED.items():
        with TemporaryDirectory() as folder:
            shutil.copy(public_data("real") / name, folder)
            yield Naming(name.partition("/")[0], frozenset(right), named_in(folder))


def named_in(folder: str) -> frozenset[object]:
    """Node, rank and GPU of each suspect of a folder."""
    return frozenset((suspect.node, suspect.rank, suspect.gpu) for suspect in look_at_folder(folder).suspects)
