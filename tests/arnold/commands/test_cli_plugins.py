"""Commands of other packages: found through entry points, and never in the way of the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arnold.commands import command_table
from ground import plugins
from tests.conftest import Arnold
from tests.facts import says

ENTRY_POINTS = """\
[arnold.commands]
broken = broken_commands:COMMANDS

[arnold.files]
broken = broken_commands:FILES

[arnold.placement]
broken = broken_commands:Algorithm
"""


def install(folder: Path, package: str, entry_points: str) -> None:
    """Leave in a folder what an installed package leaves there."""
    metadata = folder / f"{package}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose packages are installed for one test; what a process looks up once is looked up anew."""
    once = (plugins._entry_points, plugins._warn_once, command_table._warn_once)
    monkeypatch.syspath_prepend(tmp_path)
    for looked_up in once:
        looked_up.cache_clear()
    yield tmp_path
    for looked_up in once:
        looked_up.cache_clear()
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def broken(packages: Path) -> Path:
    """The folder with what an installed package leaves whose module cannot be imported."""
    install(packages, "broken", ENTRY_POINTS)
    (packages / "broken_commands.py").write_text("import absent_library\n")
    return packages


@pytest.mark.parametrize("arguments", [["--help"], ["schema"]], ids=" ".join)
def test_package_that_cannot_be_imported_leaves_the_others(arnold: Arnold, broken: Path, arguments: list[str]) -> None:
    """The list of commands, and that of schemas, has all others; what is left out and why is said once, on stderr."""
    ran = arnold(*arguments)
    assert ran.code == 0, ran.err
    assert "place" in ran.out
    assert "simulate" in ran.out
    (line,) = [line for line in ran.err.splitlines() if "arnold.commands" in line]
    assert says(line, "Warning:", "broken (arnold.commands)", "left out", "ModuleNotFoundError", "'absent_library'")


def test_its_own_command_is_not_there(arnold: Arnold, broken: Path) -> None:
    """Whoever calls it reads why, and gets the exit code of a wrong command line."""
    ran = arnold("broken")
    assert ran.code == 2
    assert "is left out: ModuleNotFoundError" in ran.err
    assert "there is no command 'broken'" in ran.err


READER = '''
from ground.formats import FileFormat


class RackList:
    """Names of racks, one a line."""

    format = FileFormat("rack-list", "an inventory", "made by hand", "racks", "")
    chooses_levels = False

    def likeness(self, head):
        return float(head.startswith(b"# racks"))

    def read(self, source, *, levels, now):
        for line in source.lines():
            rack, nodes = line.split()
'''


def test_plugin_that_fails_is_named(arnold: Arnold, packages: Path) -> None:
    """A reader of another package that stumbles over the user's file is to blame, with its line and the file.

    It is the last line of the module: ``# racks`` has two words, ``hello`` one.
    """
    install(packages, "inventory", "[arnold.topology_readers]\nrack-list = inventory_racks:RackList\n")
    (packages / "inventory_racks.py").write_text(READER)
    (packages / "racks.txt").write_text("# racks\nhello\n")
    done = arnold("topology", "show", packages / "racks.txt", "--json")
    assert done.code == 1
    error = done.json["error"]
    assert error["where"] == f"{packages / 'inventory_racks.py'}:{len(READER.splitlines())}"
    for words in ("rack-list", "inventory", "ValueError", "racks.txt"):
        assert words in error["message"]
    assert "inventory" in error["fix"]
    assert "bug" not in error["fix"]


PROFILER = '''
import json
from pathlib import Path

from ground.formats import FileFormat
from health.whatif.conversion import Conversion, Op
from health.whatif.trace import JobSizes


class Spans:
    """A vendor's profile: the spans of all ranks in a list."""

    format = FileFormat("spans", "the profiler of a vendor", "spans --all", "passes", "", marks=("vendor",))

    def likeness(self, head):
        return float(b'"vendor"' in head)

    def sizes(self, paths):
        ranks = {span["rank"] for span in self._spans(paths)}
        return JobSizes(dp=len(ranks), pp=1)

    def read(self, paths, layout, settings):
        ops = [Op(span["rank"], 0, span["op"], *span["at"], 0, 0) for span in self._spans(paths)]
        return Conversion(self.format.name, ops, (), ("read by the vendor",))

    def _spans(self, paths):
        return [span for path in paths for span in json.loads(Path(path).read_text())["spans"]]
'''
OTHER_READERS = """
from ground.formats import FileFormat
from health.collectives.diagnosis import Diagnosis
from health.peers.streams import MetricRecording, samples_of


class Calls:
    format = FileFormat("calls", "an in-house log", "log", "calls", "")

    def likeness(self, head):
        return float(head.startswith(b"calls"))

    def read(self, sources, *, settings, lenient):
        return Diagnosis((), (), "healthy", notes=(f"{len(sources)} files of calls",))


class Levels:
    format = FileFormat("levels", "an in-house agent", "agent", "levels", "")

    def likeness(self, head):
        return float(head.startswith(b"levels"))

    def read(self, content, *, columns, lenient, several):
        import numpy as np

        names = content.data.decode().split()[1:]
        part = (names, np.arange(len(names)), np.zeros(len(names)), np.ones(len(names)))
        return MetricRecording({"level": samples_of("level", [part])}, False, content.name)
"""


def test_profile_of_a_vendor_is_read(arnold: Arnold, packages: Path) -> None:
    """A format in one module of another package is recognised, converted, listed, and analysed as any other.

    Its two ranks do 1 s of forward and 2 s of backward work each, so that there is nothing to lose to stragglers.
    """
    install(packages, "vendor", "[arnold.profile_readers]\nspans = vendor_spans:Spans\n")
    (packages / "vendor_spans.py").write_text(PROFILER)
    spans = [
        {"rank": rank, "op": op, "at": at}
        for rank in (0, 1)
        for op, at in (("forward-compute", (0.0, 1.0)), ("backward-compute", (1.0, 3.0)))
    ]
    (packages / "profile").write_text(json.dumps({"vendor": 1, "spans": spans}))
    out = packages / "trace"
    for named in ((), ("--from", "spans")):
        converted = arnold("health", "op-trace", packages / "profile", "--save", out, "--json", *named)
        assert converted.code == 0, converted.out
        document = converted.json
        assert document["recovered"] == {"forward-compute": 2, "backward-compute": 2}
        assert "read by the vendor" in document["notes"]
    analysed = arnold("stragglers", out / "trace.parquet", "--json")
    assert analysed.json["cause"] == "none"
    listed = arnold("formats", "op-traces", "--json").json
    assert [format["name"] for format in listed["kinds"][0]["formats"]] == [
        "kineto",
        "megatron-timers",
        "op-trace",
        "spans",
    ]
    unknown = arnold("health", "op-trace", packages / "profile", "--save", out, "--from", "span", "--json")
    error = unknown.json["error"]
    assert (unknown.code, error["where"]) == (2, "--from")
    assert "spans" in error["fix"]


def test_records_of_collectives_and_metrics_come_from_elsewhere_too(arnold: Arnold, packages: Path) -> None:
    """Both kinds of files have groups of their own; a file that looks like two formats asks for the option."""
    groups = "[arnold.collectives_readers]\ncalls = other_readers:Calls\n"
    groups += "[arnold.metric_readers]\nlevels = other_readers:Levels\nsame = other_readers:Levels\n"
    install(packages, "other", groups)
    (packages / "other_readers.py").write_text(OTHER_READERS)
    (packages / "log").write_text("calls of rank 0\n")
    (packages / "agent").write_text("levels n1 n2 n3 n4\n")
    found = arnold("health", "collectives", packages / "log", "--json").json
    assert (found["format"], found["status"]) == ("calls", "healthy")
    assert "1 files of calls" in found["notes"]
    both = arnold("health", "peers", packages / "agent", "--json").json
    assert "at once" in both["error"]["message"]
    assert "--format" in both["error"]["fix"]
    said = arnold("health", "peers", packages / "agent", "--format", "levels", "--json")
    assert said.json["machines"] == 4


def test_reader_that_cannot_be_imported_is_not_in_the_way(arnold: Arnold, packages: Path) -> None:
    """Files of other formats are read as if it were not there; it is named once, and where it is asked for.

    The first is asked of a program that begins with the package on its path, as `pip install` leaves it. The file is
    Slurm's: of one of our own format no other reader is asked.
    """
    install(packages, "inventory", "[arnold.topology_readers]\nrack-list = absent_racks:RackList\n")
    cluster = packages / "topology.conf"
    cluster.write_text("SwitchName=r1 Nodes=n[1-2]\nSwitchName=r2 Nodes=n[3-4]\n")
    validate = ["topology", "validate", str(cluster)]
    path = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", "from arnold.main import main; main()", *validate],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("rack-list") == 1
    asked = arnold(*validate, "--format", "rack-list")
    assert asked.code == 1
    assert says(asked.err, "rack-list", "inventory", "ModuleNotFoundError")


def test_algorithms_that_cannot_be_used_are_not_in_the_way(
    arnold: Arnold, broken: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For a job with soft terms quick rules are asked: those of the house, and not what is offered besides.

    One module cannot be imported; one package takes our names, which is said once where others' are looked for; and two
    offer the same name: which is meant is not guessed, both packages are named where it is asked for.
    """
    install(broken, "taker", "[arnold.placement]\nexact = absent:Algorithm\nbest-fit = absent:Algorithm\n")
    for package in ("one", "other"):
        install(broken, package, "[arnold.placement]\nmine = absent:Algorithm\n")
    rows = [f"n{i},m{i // 8},r{i // 4}" for i in range(24)]
    (broken / "cluster.csv").write_text("\n".join(["node,minipod,rack", *rows, ""]))
    (broken / "job.yaml").write_text("parallelism: {tp: 8, dp: 4, pp: 4}\nlevels: {rack: 0.1}\n")
    place = ["place", "--cluster", broken / "cluster.csv", "--job", broken / "job.yaml"]
    done = arnold(*place)
    assert done.code == 0, done.err
    assert "proved optimal" in done.out
    refused = arnold(*place, "--algorithm", "mine")
    (line,) = [line for line in caplog.messages if line.startswith("exact ")]
    assert says(line, "exact of taker (arnold.placement)", "left out", "arnold-scheduler")
    assert (refused.code, refused.out) == (2, "")
    assert says(refused.err, "one and other", "'mine' (arnold.placement)")
    assert says(refused.err, "To fix:", "uninstall all but one")
