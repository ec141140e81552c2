"""What exporters, Prometheus, Acme and nvidia-smi write is read as it is, and one moment is shown and not judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput
from ground.files import Content
from ground.formats import nearest, recognise
from health.peers.comparison import NOTE, ComparisonSettings, at_moment, detect, is_moment
from health.peers.recording_files import METRIC_READERS, load_recording, load_recordings
from health.peers.sample_sources import SampleColumns
from health.peers.streams import MetricRecording
from health.peers.verdict import PeersVerdict, judge
from tests.case_counts import examples
from tests.facts import saying, says
from tests.health.peers import metric_samples as made

SECONDS = 400  # Long enough for the four minutes that a machine has to stand out

Read = Callable[..., MetricRecording]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read texts as files, each by its name."""

    def call(files: dict[str, str], **how: Any) -> MetricRecording:
        paths = []
        for name, text in files.items():
            paths.append(str(tmp_path / name))
            Path(paths[-1]).write_text(text)
        return load_recordings(paths, columns=SampleColumns(), **how)

    return call


def verdict(found: MetricRecording) -> PeersVerdict:
    """What is said of a recording of more than a moment."""
    assert not is_moment(found)
    return judge(found, list(detect(found, ComparisonSettings())))


def duties(seconds: int) -> dict[str, list[float]]:
    """The duty cycle of each GPU by second, without any reader."""
    return {
        f"n{host} GPU {gpu}": [float(made.duty(host, gpu, s)) for s in range(seconds)]
        for host in range(made.HOSTS)
        for gpu in range(made.GPUS)
    }


def by_second(found: MetricRecording, metric: str = "gpu_duty_cycle") -> dict[str, list[float]]:
    """The mean of each machine's samples, in order of time."""
    samples = found.metrics[metric]
    means = {}
    for k, name in enumerate(samples.machines):
        mine = samples.machine == k
        times = np.round(samples.time[mine] - samples.time.min()).astype(int)
        means[name] = [float(samples.value[mine][times == s].mean()) for s in np.unique(times)]
    return means


@pytest.mark.parametrize(
    ("files", "absolute"),
    [
        ({"range.json": made.answer("matrix", 3)}, True),
        ({"promtool.json": json.dumps(made.prometheus("matrix", 3)["data"]["result"])}, True),
        ({f"n{h}.csv": made.smi(h, 3) for h in range(made.HOSTS)}, True),
        ({f"n{h}.csv": made.smi(h, 3, units=False) for h in range(made.HOSTS)}, True),
        ({f"n{h}.csv": made.smi(h, 3, times=False) for h in range(made.HOSTS)}, False),
        (
            {
                "all.csv": made.smi(0, 3, named=True)
                + "".join(made.smi(h, 3, named=True).split("\n", 1)[1] for h in range(1, made.HOSTS))
            },
            True,
        ),
    ],
    ids=["range", "promtool", "smi", "smi-nounits", "smi-no-times", "smi-with-hosts"],
)
def test_the_same_metrics_in_every_form(read: Read, files: dict[str, str], absolute: bool) -> None:
    """Five hosts with two GPUs for three seconds: the same GPUs, values and times."""
    found = read(files)
    assert by_second(found) == duties(3)
    assert found.absolute is absolute
    if absolute:
        assert found.metrics["gpu_duty_cycle"].time.min() == pytest.approx(made.START, abs=0.2)


def test_a_column_a_machine(read: Read) -> None:
    """Acme's addresses have the number of a GPU behind them; the file names the metric."""
    found = read({"GPU_UTIL.csv": made.wide(3)})
    expected = {f"10.140.0.{name[1:]}": values for name, values in duties(3).items()}
    assert by_second(found) == expected
    assert found.metrics["gpu_duty_cycle"].time.min() == made.START
    plain = read({"fan.csv": "time,a,b\n0,1,2\n1,3,x\n"}, lenient=True)
    assert by_second(plain, "fan") == {"a": [1.0, 3.0], "b": [2.0]}
    with pytest.raises(InvalidInput, match="b is 'x', not a number") as caught:
        read({"fan.csv": "time,a,b\n0,1,2\n1,3,x\n"})
    assert caught.value.where.endswith("fan.csv:3")


def test_a_column_a_metric(read: Read) -> None:
    """A table with times, machines and any other columns: each of numbers is a metric, the others are named."""
    found = read({"m.csv": "Time,node,cpu_usage,state\n0,a,1,up\n0,b,2,up\n1,a,3,up\n"})
    assert by_second(found, "cpu_usage") == {"a": [1.0, 3.0], "b": [2.0]}
    (note,) = found.notes
    assert says(note, "left out", "'state'")


def test_what_is_nearly_a_sample_a_row_is_refused_as_one(read: Read) -> None:
    """A wrong letter in a column's name does not make its values metrics."""
    with pytest.raises(InvalidInput, match="has no column 'metric'"):
        read({"m.csv": "time,machine,metrik,value\n0,a,cpu,1\n"})
    with pytest.raises(InvalidInput, match="has no column 'metric'"):
        read({"m.csv": "time,machine,metrics,values\n0,a,cpu,1\n"})


def test_columns_of_nvidia_smi(read: Read) -> None:
    """Power is read with its unit, names of GPUs and [N/A] are left out and told."""
    found = read({"a.csv": made.smi(0, 2), "b.csv": made.smi(1, 2)})
    assert sorted(found.metrics) == ["gpu_duty_cycle", "gpu_power_draw"]
    first = found.metrics["gpu_power_draw"].value[0]
    assert first == 5 * made.duty(0, 0, 0) + 0.25
    assert says(found.notes, "left out", "'name', 'fan.speed [%]'")


def test_files_that_were_appended_to(read: Read) -> None:
    """Each run of nvidia-smi writes its header again; pandas may have written numbers of rows."""
    rows = made.smi(0, 3).splitlines(keepends=True)
    again = "".join(rows[0] + rows[1 + 2 * k] + rows[2 + 2 * k] for k in range(3))
    whole, apart = (read({"n0.csv": text, "n1.csv": made.smi(1, 3)}) for text in ("".join(rows), again))
    assert by_second(apart) == by_second(whole)
    assert read({"fan.csv": ",time,a,b\n0,0,1,2\n1,1,3,4\n"}).machines == ["a", "b"]


def test_the_gpus_of_one_host_are_compared_and_no_node_is_flagged(read: Read) -> None:
    """A file of one host: its GPUs are the machines, and a flag on a GPU would name no node."""
    rows = ["timestamp, index, utilization.gpu [%]"]
    for s in range(SECONDS):
        at = f"2027/01/15 08:{s // 60:02}:{s % 60:02}.000"
        rows += [f"{at}, {gpu}, {20 if gpu == 3 else 90 + s % 3} %" for gpu in range(8)]
    found = verdict(read({"n1.csv": "\n".join(rows)}))
    assert found.flags == ()
    assert found.metrics[0].alerts[0].machine == "GPU 3"
    assert found.verdict.startswith("GPU 3 is faulty")
    assert says(found.notes, "no node can be flagged")


@pytest.mark.parametrize(
    ("name", "text"),
    [("scrape.prom", made.dcgm()), ("vector.json", made.answer("vector", 1))],
    ids=["scrape", "vector"],
)
def test_one_moment_is_shown_and_not_judged(read: Read, name: str, text: str) -> None:
    """n2 stands out just then; nothing follows from it, and a range is asked for."""
    given = read({name: text})
    assert is_moment(given)
    found = at_moment(given)
    assert says(found.verdict, "one moment", "5 machines", "n2 in GPU duty cycle")
    assert (found.flags, found.machines) == ((), 5)
    assert NOTE in found.notes
    single = [made.duty(host, gpu, 0) for host in range(made.HOSTS) for gpu in range(made.GPUS)]
    assert f"GPU duty cycle {min(single)} to {max(single)}" in found.notes[-1]


def test_errors_are_told_of_one_moment_too(read: Read) -> None:
    """A GPU with an XID error has had it, whatever the moment."""
    text = made.dcgm().replace('Hostname="n3"} 0', 'Hostname="n3"} 79')
    assert says(at_moment(read({"scrape.prom": text})).notes, "not zero", "dcgm_fi_dev_xid_errors", "n3 GPU 0 79")


def test_blanks_of_dcgm_are_no_values(read: Read) -> None:
    """What the README of dcgm-exporter shows of a GPU without a sensor: fields that it lacks, not 9e18 degrees."""
    lines = [
        f'DCGM_FI_DEV_MEMORY_TEMP{{Hostname="n{host}"}} {value}'
        for host, value in enumerate(["40", "9223372036854775794", "140737488355330", "41"])
    ]
    found = read({"scrape.prom": "# TYPE DCGM_FI_DEV_MEMORY_TEMP gauge\n" + "\n".join(lines) + "\n"})
    assert found.machines == ["n0", "n3"]
    assert says(found.notes, "missing", "2 samples", "DCGM's blank")


def test_one_gpu_of_one_machine_is_shown(read: Read) -> None:
    """A machine that no label names is called as its file; few machines are no reason to refuse."""
    found = read({"node7.prom": "# TYPE node_load1 gauge\nnode_load1 0.5\n"})
    assert (found.machines, found.absolute) == (["node7"], False)


def test_a_long_range_is_judged(read: Read) -> None:
    """The same hosts for 400 s: n2 is faulty, from the answer of Prometheus as from CSV of nvidia-smi."""
    of_hosts = {f"n{host}.csv": made.smi(host, SECONDS) for host in range(made.HOSTS)}
    for files in ({"range.json": made.answer("matrix", SECONDS)}, of_hosts):
        assert [flag.node for flag in verdict(read(files)).flags] == ["n2"]


def test_counters_are_compared_by_what_they_gain(read: Read) -> None:
    """n2 counts from 10^12 and n3 begins anew at 200 s; both gain 1,000 a second, as all do.

    Where n1 gains three times that it is at fault alone.  A counter is told by its name;
    of one whose name says nothing the level counts.
    """
    start = {"n1": 0, "n2": 10**12}

    def text(metric: str, fast: int) -> str:
        rows = [
            f"{at},n{host},{metric},{start.get(f'n{host}', 0) + (fast if host == 1 else 1_000) * (at % again)}"
            for at in range(1, SECONDS)
            for host, again in ((host, 200 if host == 3 else SECONDS) for host in range(made.HOSTS))
        ]
        return "\n".join(["time,machine,metric,value", *rows])

    name = "node_network_transmit_bytes_total"
    assert verdict(read({"a.csv": text(name, 1_000)})).flags == ()
    found = verdict(read({"a.csv": text(name, 3_000)}))
    assert [flag.node for flag in found.flags] == ["n1"]
    assert says(found.notes, "counters", "gain a second", name)
    assert [flag.node for flag in verdict(read({"a.csv": text("what", 1_000)})).flags] == ["n2"]


def test_the_same_xid_on_all_gpus_of_a_machine_is_told_of_the_machine(read: Read) -> None:
    """As where an NVSwitch fails: of two GPUs each of n3 both have XID 74, and no part of n3 is singled out."""
    rows = [
        f"{at},n{host},{gpu},DCGM_FI_DEV_XID_ERRORS,{74 if host == 3 and at > 60 else 0}"
        for at in range(SECONDS)
        for host in range(made.HOSTS)
        for gpu in range(2)
    ]
    (flag,) = verdict(read({"a.csv": "\n".join(["time,machine,gpu,metric,value", *rows])})).flags
    assert (flag.node, flag.kind, flag.hardware) == ("n3", "faulty", True)
    assert says(flag.evidence, "dcgm_fi_dev_xid_errors 74,")


@pytest.mark.parametrize(
    ("codes", "flags"), [(["43"], [("degraded", False)]), (["43", "79"], [("faulty", True)]), ([], [])]
)
def test_xids_that_are_counted_are_told_by_their_label(
    read: Read, codes: list[str], flags: list[tuple[str, bool]]
) -> None:
    """As dcgm-exporter writes DCGM_EXP_XID_ERRORS_COUNT: of each code how often it came, and 0 without one where none
    did.  Two times XID 43 are not XID 2, and its program is to blame.
    """
    name = "DCGM_EXP_XID_ERRORS_COUNT"
    nobody = [(f"n{host}", {}, "0") for host in range(5) if host != 3 or not codes]
    series = [
        {"metric": {"__name__": name, "Hostname": host, "gpu": "0", **label}, "values": [[t, count] for t in times]}
        for host, label, count in [*nobody, *(("n3", {"xid": code}, "2") for code in codes)]
        for times in [range(SECONDS)]
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})
    found = verdict(read({"range.json": text}))
    assert [(flag.kind, flag.hardware) for flag in found.flags] == flags
    assert all(says(flag.evidence, codes[-1]) for flag in found.flags)


def test_what_held_a_clock_down_long_ago_is_no_evidence(read: Read) -> None:
    """DCGM counts for how long power or heat held a GPU's clock down since it was started: one that gains nothing now
    is as sound as those that never gained any.
    """
    rows = [
        f"{at},n{host},DCGM_FI_DEV_POWER_VIOLATION,{2_000_000 if host == 3 else 0}"
        for at in range(SECONDS)
        for host in range(made.HOSTS)
    ]
    assert verdict(read({"a.csv": "\n".join(["time,machine,metric,value", *rows])})).flags == ()


@pytest.mark.parametrize(
    ("metric", "usual", "shown"),
    [
        ("gpu_duty_cycle", 95.0, 0.95),
        ("gpu_graphics_engine_activity", 0.9, 90.0),
        ("gpu_power_draw", 600.0, 0.6),
        ("gpu_sm_clock", 1_900.0, 1.9),
    ],
)
def test_the_unit_of_a_metric_makes_no_difference(read: Read, metric: str, usual: float, shown: float) -> None:
    """One of six at half of the others' from 200 s on: the same is said of shares, kilowatts and gigahertz."""

    def text(level: float) -> str:
        rows = [
            f"{s},n{m},{metric},{level * (0.5 if m == 1 and s >= 200 else 1.0) * (1 + 0.001 * ((7 * s + m) % 5))!r}"
            for s in range(0, 900, 5)
            for m in range(6)
        ]
        return "\n".join(["time,machine,metric,value", *rows])

    said = [verdict(read({"a.csv": text(level)})) for level in (usual, shown)]
    assert [[flag.node for flag in one.flags] for one in said] == [["n1"], ["n1"]]
    assert said[0].verdict == said[1].verdict
    assert says(said[1].notes, "unit")
    assert not said[0].notes


def test_shares_are_no_sign_that_gpus_idle(read: Read) -> None:
    """All GPUs work by shares of 1, so that the one that draws less is at fault; by whole percent they idle."""

    def text(duty: float) -> str:
        of_duty = [f"{s},n{m},gpu_duty_cycle,{duty!r}" for s in range(0, 900, 5) for m in range(6)]
        power = [
            f"{s},n{m},gpu_power_draw,{300 if m == 1 and s >= 200 else 600}" for s in range(0, 900, 5) for m in range(6)
        ]
        return "\n".join(["time,machine,metric,value", *of_duty, *power])

    assert [flag.node for flag in verdict(read({"a.csv": text(0.97)})).flags] == ["n1"]
    assert verdict(read({"a.csv": text(1.0)})).flags == ()


def test_a_cpu_of_at_most_one_is_said(read: Read) -> None:
    """As a share it works, as percent it idles: which of them is not known."""
    rows = [f"{s},n{m},cpu_usage,{0.4 if m else 0.2}" for s in range(0, 900, 5) for m in range(6)]
    found = verdict(read({"a.csv": "\n".join(["time,machine,metric,value", *rows])}))
    assert (found.flags, says(found.notes, "CPU usage", "share")) == ((), True)


def test_files_with_times_of_two_kinds_are_not_joined(read: Read) -> None:
    """Seconds since 1970 and seconds since some start do not go together."""
    with pytest.raises(InvalidInput, match=saying("since 1970")):
        read({"a.csv": made.smi(0, 2), "b.csv": made.smi(1, 2, times=False)})


GOOD = {
    "samples": "time,machine,metric,value\n0,a,cpu,1\n1,b,cpu,2\n",
    "metrics-of-machines": made.wide(3),
    "nvidia-smi": made.smi(0, 3),
    "prometheus-range": made.answer("matrix", 3),
    "prometheus-vector": made.answer("vector", 3),
    "exporter-text": made.dcgm(),
}


def test_each_format_says_what_marks_it() -> None:
    """All marks of a format stand in a file of it; the nearest format of a file is its own."""
    formats = METRIC_READERS.formats()
    assert {format.name for format in formats} == GOOD.keys()
    for format in formats:
        assert all(mark in GOOD[format.name].lower() for mark in format.marks), format.name
        close = nearest(formats, GOOD[format.name])
        assert close is not None
        assert close[1] == ()


@pytest.mark.parametrize("name", list(GOOD))
def test_each_file_is_recognised(name: str) -> None:
    """The file of a format is of no other."""
    assert recognise(METRIC_READERS, Content("m", GOOD[name].encode())).format.name == name


@pytest.mark.parametrize("name", list(GOOD))
@given(data=st.data())
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_bytes_are_an_error_or_a_recording(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Bytes put in the place of others, or a file cut off: our own error with a way out, or what is left of it."""
    content = bytearray(GOOD[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.dat"
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    for lenient in (False, True):
        # Our own error, or a recording of some machine.
        with suppress(ArnoldError):
            assert load_recording(str(path), lenient=lenient).machines
