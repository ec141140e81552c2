"""Every page that a command writes, looked at by axe-core in a browser: both widths, both themes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from arnold.commands.command_table import arnold as root
from arnold.demonstration import demo_files, demo_instance
from tests.axe import axe_script, violations
from tests.conftest import Arnold

ON_CLUSTER = "--cluster cluster.csv"
PLACED = f"{ON_CLUSTER} --job new.yaml"

PAGES = {
    "demo": "--time-limit 0.01 --output demo.html",
    "place": f"{ON_CLUSTER} --job job.yaml --html place.html",
    "topology show": "cluster.csv --output topology.html",
    "simulate": f"{ON_CLUSTER} --trace jobs.csv --failures 4 --html simulate.html",
    "study simulate": f"{ON_CLUSTER} --trace jobs.csv --policies fifo,fifo-backfill --algorithms slurm-tree --seeds 2 "
    "--html study.html",
    "study generations": "--made 8 --seeds 2 --load 0.5 --load 1 --html generations.html",
    "stragglers": "trace.parquet --meta meta.yaml --nodes workers.csv --html stragglers.html",
    "capacity minipods": "--nodes 512 --size 128 --oversubscription 4 --seeds 2 --job 8x8x2 --html minipods.html",
    "capacity spares": "--nodes 1200 --failures 3..9 --price-gpu-hour 2.5 --html spares.html",
    "capacity reserve": "--made 6x32 --job 8x8x14 --html reserve.html",
    "capacity fragmentation": "--made 6x32 --busy-share 0.8 --html fragmentation.html",
    "capacity grow": "--made 11x93 --price-gpu-hour 2.5 --html grow.html",
    "capacity power": "--html power.html",
    "capacity cache": "--samples 13333 --jobs 4 --job-samples 10000 --cache-gb 1 --html cache.html",
}
"""Command -> arguments with which it writes a page, on the files of `arnold demo --save`."""


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
    arnold: Arnold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No rule of axe-core is broken on any page, wherever it is shown."""
    axe = axe_script(request.config.cache.mkdir("axe-core"))
    monkeypatch.chdir(tmp_path)
    for name, content in demo_files(*demo_instance(0), 0).items():
        (tmp_path / name).write_bytes(content)
    for command, words in PAGES.items():
        ran = arnold(*command.split(), *words.split())
        assert ran.code == 0, f"arnold {command} {words}\n{ran.err}"
    pages = {file.stem: file.read_text(encoding="utf-8") for file in sorted(tmp_path.glob("*.html"))}
    assert len(pages) == len(PAGES)
    assert [str(one) for one in violations(pages, tmp_path, axe)] == []
