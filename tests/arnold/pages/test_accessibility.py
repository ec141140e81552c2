"""Every page that a command writes, looked at by axe-core in a browser: both widths, both themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from arnold.commands.command_table import arnold as root
from arnold.demonstration import demo_files, demo_instance
from benchmarks.simulated_collectives import BenchJob, Fault, simulate
from tests.axe import THEMES, WIDTHS, axe_script, violations
from tests.conftest import Arnold
from tests.health.collectives.progress_lines import write_progress
from tests.health.recovery.recovery_world import machines, stacks_of, write_dumps

ON_CLUSTER = "--cluster cluster.csv"
PLACED = f"{ON_CLUSTER} --job new.yaml"

PAGES = {
    "place": f"{PLACED} --output placement.json --html place.html",
    "demo": "--time-limit 0.01 --html demo.html",
    "compare": f"{PLACED} --algorithm exact,slurm-tree,kai --html compare.html",
    "explain": f"{PLACED} --html explain.html",
    "kube place": f"{ON_CLUSTER} -f new.yaml --html live_place.html",
    "kube explain": f"{PLACED} --html live.html",
    "kube score": f"{PLACED} --nodes placement.json --html running.html",
    "health collectives": "progress.jsonl --html collectives.html",
    "health peers": "metrics.parquet --html metrics.html",
    "health evict": "dumps --job stuck.yaml --html evict.html",
    "health backups": f"{ON_CLUSTER} --placement placement.json --failure-level rack --html backups.html",
    "health look": "dumps --html look.html",
    "health pairs read": f"pairs.csv {ON_CLUSTER} --html pairs.html",
    "health isolate": "--placement placement.json --html parts.html",
    "repair": f"{ON_CLUSTER} --placement placement.json --lost n1214 --html repair.html",
    "score": f"{PLACED} --nodes placement.json --html score.html",
    "report": f"{ON_CLUSTER} --trace sacct.txt --since 2026-11-28 --until 2026-11-29 --html report.html",
    "topology show": "cluster.csv --figure topology.html",
    "simulate": f"{ON_CLUSTER} --trace jobs.csv --failures 4 --html simulate.html",
    "study generations": "--trace-jobs 8 --seeds 2 --load 0.5 --load 1 --html generations.html",
    "stragglers": "trace.parquet --meta meta.yaml --node-map workers.csv --html stragglers.html",
    "calibrate": "steps.csv --html calibrate.html",
    "capacity minipods": "--cluster-nodes 512 --size 128 --oversubscription 4 --seeds 2 --grid 8x8x2 "
    "--html minipods.html",
    "capacity spares": "--nodes 1200 --failures 3..9 --price-gpu-hour 2.5 --html spares.html",
    "capacity reserve": "--made 6x32 --grid 8x8x14 --html reserve.html",
    "capacity fragmentation": "--made 6x32 --busy-share 0.8 --html fragmentation.html",
    "capacity grow": "--made 11x93 --price-gpu-hour 2.5 --html grow.html",
    "capacity power": "--html power.html",
    "capacity cache": "--samples 13333 --readers 4 --job-samples 10000 --cache-gb 1 --html cache.html",
}
"""Command -> arguments with which it writes a page, on the files of the folder below, one after the other."""

STUDY = f"simulate {ON_CLUSTER} --trace jobs.csv --policy fifo,fifo-backfill --algorithm slurm-tree --seeds 2 "
STUDY += "--html study.html"
"""The other page of `arnold simulate`: of several runs."""

STUCK = "name: small\nparallelism: {tp: 8, dp: 6, pp: 4}\n"


SACCT = """\
JobID|JobName|User|Account|Submit|Start|End|State|NNodes|ReqTRES|AllocTRES|NodeList
1|a|ann|lab|2026-11-28T00:00:00|2026-11-28T00:00:00|2026-11-28T05:00:00|COMPLETED|2||gres/gpu=16|n[0001-0002]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of `arnold demo --save`, stack dumps of a job that hangs, and progress of one that does."""
    for name, content in demo_files(*demo_instance(0), 0).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "stuck.yaml").write_text(STUCK)
    (tmp_path / "sacct.txt").write_text(SACCT)
    (tmp_path / "pairs.csv").write_text("node_a,node_b,busbw_gbs\nn0001,n0002,40\nn0003,n0004,41\nn0002,n0005,20\n")
    write_dumps(tmp_path / "dumps", stacks_of(machines(), lambda row, column: row == 2 and column > 0))
    job = BenchJob(dp=4, tp=1, pp=1, gpus_per_node=1)
    recording = simulate(job, 61.0, seed=1, fault=Fault("not-launched", 2, 41.0))
    (tmp_path / "progress.jsonl").write_text("".join(f"{line}\n" for line in write_progress(recording)))
    return tmp_path


def commands_with_a_page(group: click.Command = root, path: str = "") -> Iterator[str]:
    """All commands with --html."""
    context = click.Context(group)
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            yield from commands_with_a_page(found, f"{path} {name}".strip())
    elif any("--html" in option.opts for option in group.params):
        yield path


def test_every_command_with_a_page_is_looked_at() -> None:
    """The table above has each command with --html, and the two that write a page under another option."""
    assert set(PAGES) == {*commands_with_a_page(), "demo", "topology show"}


@pytest.mark.accessibility
def test_no_page_has_a_violation(
    arnold: Arnold, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No rule of axe-core is broken on any page, wherever it is shown."""
    axe = axe_script(request.config.cache.mkdir("axe-core"))
    monkeypatch.chdir(folder)
    for words in (*(f"{command} {words}" for command, words in PAGES.items()), STUDY):
        ran = arnold(*words.split())
        assert ran.code < 2, f"arnold {words}\n{ran.err}"
    pages = {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.html"))}
    assert len(pages) == len(PAGES) + 1
    assert [str(one) for one in violations(pages, folder, axe)] == []


@pytest.mark.accessibility
def test_a_violation_would_be_found(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A page with pale words and a table header without words has both, at each width in each theme."""
    axe = axe_script(request.config.cache.mkdir("axe-core"))
    faulty = (
        '<!DOCTYPE html><html lang="en"><title>faulty</title><main><h1>Faulty</h1>'
        '<p style="color:#aaa;background:#fff">pale</p>'
        "<table><thead><tr><th></th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></main>"
    )
    found = [(one.width, one.theme, one.rule) for one in violations({"faulty": faulty}, tmp_path, axe)]
    rules = ("color-contrast", "empty-table-header")
    assert found == [(width, theme, rule) for width in WIDTHS for theme in THEMES for rule in rules]
