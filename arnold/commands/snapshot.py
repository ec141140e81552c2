"""``arnold snapshot``: a cluster as it stands, with all that runs, in one file; and what changed since another."""

from dataclasses import replace
from datetime import UTC, datetime

import click

from arnold.console.output import answer
from arnold.options.cluster_options import ClusterFiles, OpenedCluster, cluster_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option
from arnold.options.job_options import running_files
from arnold.options.shared_options import RUNNING_JOBS_HELP
from ground.errors import InvalidInput
from ground.files import Source, read_source, write_file


@click.command("snapshot", cls=JsonCommand, document="arnold.documents.snapshot_answer:SnapshotDocument")
@cluster_options
@file_option("--running", metavar="FILES", multiple=True, help=RUNNING_JOBS_HELP)
@file_option("--output", written=True, help="Save it, for --cluster of every command.")
@file_option("--against", help="Say what changed since this snapshot.")
def command(*, files: ClusterFiles, running: tuple[str, ...], output: str | None, against: str | None) -> None:
    """Save a cluster as it stands: topology, states of nodes, jobs, reservations, flags and the time, in one file.

    Every command takes it as --cluster; its jobs count as running, and its time as now. It holds what the cluster's own
    tools print. What is asked for a job (--partition, --time, --reservation, --exclude, --tolerate) is no part of it.

    $ arnold snapshot --cluster slurm: --output monday.json
    $ arnold snapshot --cluster kube:prod --levels example.com/pod,example.com/rack --output monday.json
    $ arnold snapshot --cluster topology.conf --busy nodes.txt --running jobs.txt --output monday.json
    $ arnold snapshot --cluster slurm: --against monday.json
    $ arnold explain --cluster monday.json --job job.yaml --when
    """
    from arnold.documents.snapshot_answer import print_snapshot, snapshot_document
    from topology.flag_sources import flags_as_text
    from topology.snapshot import ClusterSnapshot, ReadWith, SnapshotFile, Text, read_file

    opened = files.opened(jobs=not running)
    source = opened.topology if isinstance(opened.topology, Source) else read_source(opened.topology)
    if files.format is None and ClusterSnapshot().likeness(source.head) == 1.0:
        base = read_file(source)
    else:
        now = datetime.now(UTC)
        offset = now.astimezone().utcoffset()
        base = SnapshotFile(
            time=now,
            utc_offset=0 if offset is None else round(offset.total_seconds()),
            source=files.cluster,
            format=files.format,
            cluster=Text.of([source])[0],
            lists=Text.of(opened.in_use),
            running=None if opened.running is None else Text.of(text for text in opened.running if text is not source),
            jobs_in_cluster=opened.running is not None and source in opened.running,
        )
    time = base.time if files.now is None else files.now
    options = {option: value for option, value in files.read_with.items() if value is not None}
    jobs = Text.of(read_source(file) for file in running_files(running))
    file = base.model_copy(
        update={
            "time": time,
            "read_with": ReadWith(**{**base.read_with.model_dump(), **options}),
            "lists": [*base.lists, *Text.of(read_source(text, may_be_empty=True) for text in files.busy)],
            "running": jobs if running else base.running,
            "flags": [*base.flags, *Text.of(flags_as_text(text, now=time) for text in files.flags)],
        }
    )
    # read as every command will read it, so that nothing is saved that cannot be read
    text = file.text()
    alone = replace(files, busy=(), flags=(), format=None)
    loaded = replace(alone.over(OpenedCluster(Source("", text), notes=opened.notes)), source=file.source)
    before = None if against is None else replace(alone, cluster=against, at=None).read()
    if before is not None and before.format != ClusterSnapshot.format.name:
        no_snapshot, fix = "it is no snapshot", "give what `arnold snapshot --output` saved"
        raise InvalidInput(no_snapshot, where=f"--against {against}", fix=fix)
    if output is not None:
        write_file(output, text)
    answer(snapshot_document(loaded, output=output, before=before), print_snapshot)
