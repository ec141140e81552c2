"""Workloads that are made when they are read: a small YAML file, the key ``workload`` first."""

import re
from collections.abc import Iterator

from ground.documents import load_document
from ground.errors import InvalidInput, TraceFormatError
from ground.files import ByteStream, Source
from ground.formats import FileFormat, Marked
from simulator.traces.cells import TraceRows
from simulator.traces.trace_loading import Numbered
from simulator.workload import WorkloadSpec, generate


class SyntheticJobs(Marked):
    """Reader of workload files."""

    format = FileFormat(
        "llm-workload",
        source="YAML that begins with `workload: kalos`: jobs are made from a seed",
        export="written by hand, by `arnold schema workload`",
        read="everything",
        left_out="",
        marks=("workload",),
    )
    mark = re.compile(r'\A(?:\s|#[^\n]*\n|---\s*\n|\{)*"?workload"?\s*:')

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs that the file asks for; what stands for the line is the number of the job."""
        document = load_document(Source(source.name, "".join(source.lines())))
        spec = document.parse(WorkloadSpec, error=TraceFormatError)
        try:
            records = generate(spec)
        except InvalidInput as error:
            error.where = document.where(error.where)
            raise
        bad_rows.note("The jobs are made, not measured: see job-traces.md of the docs for what they are fitted to.")
        yield from enumerate(records, 1)
