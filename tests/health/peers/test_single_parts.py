"""GPUs and ports as rows: the host is flagged, and what of it stands out is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from health.peers.comparison import ComparisonSettings, detect
from health.peers.recording_files import load_recordings
from health.peers.sample_sources import SampleColumns, part_of
from health.peers.verdict import PeersVerdict, judge
from tests.facts import says
from tests.health.peers.made import Array

HOSTS, GPUS, SAMPLES, STEP, START = 12, 8, 240, 15, 1_800_000_000
# level, what GPUs differ by for good, and the level of the GPU that throttles from sample 100 on
THROTTLES = {
    "DCGM_FI_DEV_SM_CLOCK": (1_755.0, 8.0, 1_200.0),
    "DCGM_FI_DEV_GPU_TEMP": (62.0, 2.0, 84.0),
    "DCGM_FI_DEV_POWER_USAGE": (550.0, 10.0, 400.0),
}


def fleet(levels: dict[str, tuple[float, float, float]], *, bad: int = 4 * GPUS + 6) -> dict[str, Array]:
    """An hour of all GPUs by metric, shape (GPUs of all hosts, samples)."""
    random, values = np.random.default_rng(5), {}
    for name, (level, offset, then) in levels.items():
        made = level + random.normal(0.0, offset, (HOSTS * GPUS, 1))
        made = made + random.normal(0.0, offset / 2, (HOSTS * GPUS, SAMPLES))
        made[bad, 100:] += then - level
        values[name] = made
    return values


def prometheus(values: dict[str, Array], labels: Callable[[int, int], dict[str, str]]) -> str:
    """The answer of Prometheus to range queries; NaN = no sample."""
    series = []
    for name, rows in values.items():
        for row, own in enumerate(rows):
            pairs = [[START + STEP * k, f"{value:.1f}"] for k, value in enumerate(own) if np.isfinite(value)]
            if pairs:
                series.append({"metric": {"__name__": name} | labels(*divmod(row, GPUS)), "values": pairs})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


def gpu_labels(host: int, gpu: int) -> dict[str, str]:
    """As dcgm-exporter labels."""
    return {"Hostname": f"node-{host:02}", "gpu": str(gpu), "device": f"nvidia{gpu}"}


def judged(path: Path, text: str) -> PeersVerdict:
    """The verdict on a file."""
    path.write_text(text)
    given = load_recordings([str(path)], columns=SampleColumns())
    return judge(given, list(detect(given, ComparisonSettings())))


def test_one_throttling_gpu_of_eight_is_named(tmp_path: Path) -> None:
    """Seven of eight GPUs hide it in the mean of the machine, which falls by 4 % of the clock: the GPU is a row."""
    found = judged(tmp_path / "gpus.json", prometheus(fleet(THROTTLES), gpu_labels))
    (flag,) = found.flags
    assert (flag.node, flag.kind) == ("node-04", "faulty")
    assert says(flag.evidence, "GPU 6", "SM clock", "GPU temperature", "GPU power draw")
    assert {alert.part for metric in found.metrics for alert in metric.alerts} == {"GPU 6"}
    # the hundredth sample is at 08:25; an alert takes four minutes and a window
    assert flag.since is not None
    assert 0 <= START + 100 * STEP - flag.since.timestamp() <= 8 * STEP


def test_the_same_of_tables(tmp_path: Path) -> None:
    """A sample a row with a column gpu; a column that is the same all over each machine names no parts."""
    lines = ["time,machine,gpu,metric,value"]
    for name, rows in fleet(THROTTLES).items():
        for row, own in enumerate(rows):
            host, gpu = divmod(row, GPUS)
            lines += [f"{START + STEP * k},node-{host:02},{gpu},{name},{value:.1f}" for k, value in enumerate(own)]
    found = judged(tmp_path / "gpus.csv", "\n".join(lines) + "\n")
    assert [flag.node for flag in found.flags] == ["node-04"]
    assert "GPU 6" in found.flags[0].evidence
    same = [f"{START + k},n{host},25,load,{5 + host % 2}" for host in range(4) for k in range(3)]
    path = tmp_path / "request.csv"
    path.write_text("\n".join(["time,machine,gpu,metric,value", *same]))
    given = load_recordings([str(path)], columns=SampleColumns())
    assert (given.machines, dict(given.parts)) == (["n0", "n1", "n2", "n3"], {})


def test_a_machine_whose_gpus_all_change_is_told_as_a_machine(tmp_path: Path) -> None:
    """A power cap of all eight: one flag, and its sentence is of the machine's mean."""
    values = fleet({"DCGM_FI_DEV_POWER_USAGE": (550.0, 10.0, 550.0)})
    values["DCGM_FI_DEV_POWER_USAGE"][5 * GPUS : 6 * GPUS, 100:] *= 0.72
    (flag,) = judged(tmp_path / "cap.json", prometheus(values, gpu_labels)).flags
    assert flag.node == "node-05"
    assert "GPU 0" not in flag.evidence


def test_a_gpu_without_series_is_missing_and_a_machine_without_them_is_silent(tmp_path: Path) -> None:
    """A GPU that fell off has no series any more, while those beside it have; of a machine nothing is known."""
    values = fleet({"DCGM_FI_DEV_GPU_TEMP": (62.0, 2.0, 62.0)})
    values["DCGM_FI_DEV_GPU_TEMP"][3 * GPUS + 2, 120:] = np.nan
    values["DCGM_FI_DEV_GPU_TEMP"][7 * GPUS : 8 * GPUS, 120:] = np.nan
    found = judged(tmp_path / "gone.json", prometheus(values, gpu_labels))
    (flag,) = found.flags
    assert (flag.node, flag.kind) == ("node-03", "faulty")
    assert "GPU 2" in flag.evidence
    assert says(found.notes, "fallen silent", "node-07")


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ({"gpu": "6", "device": "nvidia6"}, "GPU 6"),
        ({"device": "mlx5_0", "port": "1"}, "NIC mlx5_0"),
        ({"device": "mlx5_0", "port": "2"}, "NIC mlx5_0:2"),
        ({"interface": "eth0"}, "NIC eth0"),
        ({"link": "3"}, "link 3"),
        ({"device": "/dev/nvme0n1"}, ""),
        ({"mode": "idle", "cpu": "3"}, ""),
    ],
)
def test_which_labels_name_parts(labels: dict[str, str], part: str) -> None:
    """GPUs, NICs and links are rows; disks and CPUs of a machine are not."""
    assert part_of(labels) == part


def test_a_slow_port_is_named(tmp_path: Path) -> None:
    """Half the throughput on one NIC of one machine."""
    values = fleet({"node_infiniband_port_data_transmitted": (2e10, 4e8, 1e10)})
    ports = lambda host, gpu: {"instance": f"node-{host:02}:9100", "device": f"mlx5_{gpu}", "port": "1"}  # noqa: E731
    (flag,) = judged(tmp_path / "ports.json", prometheus(values, ports)).flags
    assert flag.node == "node-04"
    assert "NIC mlx5_6" in flag.evidence
