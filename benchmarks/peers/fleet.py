"""Recordings of jobs GPU by GPU, as clusters have them, from a seed: healthy ones, and nine kinds of faults.

No such recording is public, so this is a model of what is known of them, hard in the ways that are reported: every GPU
has offsets of its own, a few of them large; inlets are warmer by hour and place; stages of a pipeline differ by a few
percent; the job pauses for checkpoints and restarts, and often begins in a pause; 1.5 % of the scrapes are missing, and
one machine is away for minutes; rank 0 has more to do for its CPU; whatever is slow is waited for by all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from health.peers.metrics import counts_up
from health.peers.streams import FloatArray, MetricRecording, Samples, rate_of
from topology.cluster import BoolArray

GPUS, NICS = 8, 4  # Of a machine
MISSING = 0.015  # Share of scrapes that never arrive
# metric -> its level at work, its level in a pause, noise and what rows differ by for good, as shares of the level
OF_GPU = {
    "gpu_duty_cycle": (96.0, 0.0, 0.015, 0.008),
    "gpu_power_draw": (550.0, 110.0, 0.012, 0.02),
    "dcgm_fi_dev_sm_clock": (1755.0, 1700.0, 0.003, 0.006),
    "dcgm_fi_dev_gpu_temp": (62.0, 38.0, 0.01, 0.05),
    "gpu_tensor_activity": (0.42, 0.0, 0.03, 0.015),
    "dcgm_fi_prof_pcie_rx_bytes": (9e9, 1e7, 0.08, 0.04),
    "nvlink_bandwidth": (8e10, 0.0, 0.04, 0.02),
}
OF_NIC = {"node_infiniband_transmit": (2.4e10, 1e6, 0.05, 0.03), "pfc_tx_packet_rate": (500.0, 1.0, 0.3, 0.15)}
CPU = (24.0, 4.0, 0.08, 0.05)
XID, ECC = "dcgm_fi_dev_xid_errors", "dcgm_fi_dev_ecc_sbe_vol_total"
FAULTS = ("thermal", "hot", "dead", "pcie", "ecc", "pfc", "cpu hog", "power cap", "slow nic")
OF_MACHINE = ("cpu hog", "power cap")  # Faults of all of a machine


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a recording: since when (seconds of the recording), and where."""

    kind: str
    machine: str
    part: str  # such as GPU 6; empty = the machine
    onset: float


@dataclass(slots=True)
class Fleet:
    """A job's metrics under way: of each metric an array of shape (rows, times)."""

    step: float  # seconds between scrapes
    working: BoolArray  # of each time whether the job works
    values: dict[str, FloatArray] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()

    def rows(self, metric: str) -> int:
        """Return how many rows a metric has a machine."""
        return 1 if metric == "cpu_usage" else NICS if metric in OF_NIC else GPUS

    def names(self, metric: str) -> tuple[str, ...]:
        """Return the names of a metric's rows."""
        kind = "" if metric == "cpu_usage" else " NIC mlx5_" if metric in OF_NIC else " GPU "
        return tuple(f"{host}{kind}{k}" if kind else host for host in self.hosts for k in range(self.rows(metric)))


def healthy(rng: np.random.Generator, *, machines: int, step: float = 15.0, hours: float = 2.0) -> Fleet:
    """Return a healthy job."""
    times = int(hours * 3600 / step)
    fleet = Fleet(step, np.ones(times, dtype=np.bool_), hosts=tuple(f"node-{k:03d}" for k in range(machines)))
    clock = np.arange(times) * step
    for begin, length in _pauses(rng, hours * 3600):
        fleet.working &= (clock < begin) | (clock >= begin + length)
    stage = 1.0 + 0.04 * rng.uniform(-0.5, 0.5, 8)[np.arange(machines) * int(rng.choice([1, 2, 4, 8])) // machines % 8]
    place = np.arange(machines) // 8  # eight machines share a rack, and its air
    drift = rng.uniform(0.5, 2.0) * np.sin(2 * np.pi * clock / 3600 / rng.uniform(2.0, 8.0) + rng.uniform(0, 6))
    inlet = rng.normal(0.0, 1.5, place.max() + 1)[place][:, None] + np.outer(rng.uniform(0.3, 1.7, machines), drift)
    for name, (level, idle, noise, offset) in {**OF_GPU, **OF_NIC, "cpu_usage": CPU}.items():
        each = fleet.rows(name)
        rows = machines * each
        # heavy tails, up to six deviations: a GPU that is 19 degrees warmer than others for good still works
        gain = 1.0 + offset * np.clip(rng.standard_t(4, rows)[:, None] / 1.4, -6.0, 6.0)
        if name in ("gpu_power_draw", "gpu_tensor_activity", "nvlink_bandwidth", "node_infiniband_transmit"):
            gain = gain * np.repeat(stage, each)[:, None]
        jitter = np.clip(
            fleet.working + rng.normal(0, 0.02, (rows, times)) * np.gradient(fleet.working.astype(float)), 0, 1
        )
        made = idle + (level * gain - idle) * jitter + level * noise * _noise(rng, rows, times)
        if name == "dcgm_fi_dev_gpu_temp":
            made = _slow(made, step) + np.repeat(inlet, each, axis=0)
        fleet.values[name] = made
    fleet.values["gpu_duty_cycle"] = np.minimum(fleet.values["gpu_duty_cycle"], 100.0)
    cpu = fleet.values["cpu_usage"]
    cpu[0] *= rng.uniform(1.2, 1.5)  # rank 0 logs ...
    cpu[0] += 25.0 * ~fleet.working  # ... and writes checkpoints
    for _ in range(rng.poisson(machines / 20)):  # something else runs on a machine for up to two minutes
        row, at = rng.integers(machines), rng.integers(times)
        cpu[row, at : at + int(rng.uniform(15, 120) / step) + 1] *= rng.uniform(1.5, 2.5)
    fleet.values[XID] = np.zeros((machines * GPUS, times))
    counts = rng.random((machines * GPUS, times)) < 2e-6 * step  # now and then one bit is corrected
    fleet.values[ECC] = rng.integers(0, 40, (machines * GPUS, 1)) + np.cumsum(counts, axis=1).astype(float)
    return fleet


def _pauses(rng: np.random.Generator, seconds: float) -> Iterator[tuple[float, float]]:
    """Yield beginning and length of pauses: loading, checkpoints, restarts."""
    if rng.random() < 0.5:
        yield 0.0, rng.uniform(60.0, 400.0)
    every = rng.uniform(900.0, 2400.0)
    for k in range(1, int(seconds / every) + 1):
        yield k * every, rng.uniform(20.0, 90.0)
    for _ in range(rng.poisson(0.5)):
        yield rng.uniform(0.0, seconds), rng.uniform(180.0, 500.0)


def _noise(rng: np.random.Generator, rows: int, times: int) -> FloatArray:
    """Return noise of variance 1, half of which the next sample remembers."""
    out = rng.standard_normal((rows, times))
    for k in range(1, times):
        out[:, k] = 0.5 * out[:, k - 1] + np.sqrt(0.75) * out[:, k]
    return out


def _slow(values: FloatArray, step: float) -> FloatArray:
    """Return temperatures that follow what they should be within a minute."""
    out, share = values.copy(), 1.0 - np.exp(-step / 60.0)
    for k in range(1, values.shape[1]):
        out[:, k] = out[:, k - 1] + share * (values[:, k] - out[:, k - 1])
    return out


def inject(
    fleet: Fleet, kind: str, rng: np.random.Generator, *, onset_share: tuple[float, float] = (0.2, 0.8)
) -> Fault:
    """Put a fault into a job, at a time of these shares of its recording."""
    times = len(fleet.working)
    onset, host = int(times * rng.uniform(*onset_share)), int(rng.integers(len(fleet.hosts)))
    after = slice(onset, None)
    own, nic = host * GPUS + int(rng.integers(GPUS)), host * NICS + int(rng.integers(NICS))
    gpus = slice(host * GPUS, (host + 1) * GPUS)
    values, wait = fleet.values, 1.0
    saved = {name: made[gpus].copy() for name, made in values.items() if name in OF_GPU}
    match kind:
        case "thermal":
            wait = 0.75
        case "power cap":
            wait = 0.85
        case "pcie" | "slow nic" | "cpu hog":
            wait = 0.93
        case "dead":
            wait = 0.9
    for name in ("gpu_duty_cycle", "gpu_power_draw", "gpu_tensor_activity", "nvlink_bandwidth"):
        values[name][:, after] *= wait  # all wait for the slow one, ...
        if kind in ("thermal", "power cap"):  # ... which does not wait
            slow = slice(own, own + 1) if kind == "thermal" else gpus
            values[name][slow, after] = saved[name][slow.start - gpus.start : slow.stop - gpus.start, after]
    match kind:
        case "thermal":
            values["dcgm_fi_dev_sm_clock"][own, after] *= 0.66
            values["dcgm_fi_dev_gpu_temp"][own, after] += 17.0
            values["gpu_power_draw"][own, after] *= 0.74
        case "hot":
            values["dcgm_fi_dev_gpu_temp"][own, after] += 22.0
        case "dead":
            for name in OF_GPU:
                values[name][own, after] = np.nan
            values[XID][own, after] = 79.0
        case "pcie":
            values["dcgm_fi_prof_pcie_rx_bytes"][own, after] *= 0.3
            values["gpu_duty_cycle"][own, after] *= 0.93
        case "ecc":
            values[ECC][own, after] += np.cumsum(rng.poisson(rng.uniform(0.05, 0.5) * fleet.step, times - onset))
        case "pfc":
            values["pfc_tx_packet_rate"][nic, after] *= 6.0
        case "cpu hog":
            values["cpu_usage"][host, after] = np.minimum(100.0, 3.0 * values["cpu_usage"][host, after])
        case "power cap":
            values["gpu_power_draw"][gpus, after] *= 0.72
            values["dcgm_fi_dev_sm_clock"][gpus, after] *= 0.8
        case "slow nic":
            values["node_infiniband_transmit"][nic, after] *= 0.5
    part = f"NIC mlx5_{nic % NICS}" if kind in ("pfc", "slow nic") else f"GPU {own % GPUS}"
    return Fault(kind, fleet.hosts[host], "" if kind in OF_MACHINE else part, onset * fleet.step)


def recording(fleet: Fleet, rng: np.random.Generator, *, source: str, start: float = 1.8e9) -> MetricRecording:
    """Return what the monitoring system has of a job: rounded, some of it missing, a machine away for minutes."""
    times, metrics = len(fleet.working), {}
    away, at = int(rng.integers(len(fleet.hosts))), int(rng.integers(times))
    scraped = rng.random((len(fleet.hosts), times)) >= MISSING
    scraped[away, at : at + int(rng.uniform(120, 400) / fleet.step)] = False
    for name, values in fleet.values.items():
        digits = 4 if name == "gpu_tensor_activity" else 0
        there = np.repeat(scraped, fleet.rows(name), axis=0) & np.isfinite(values)
        row, time = np.nonzero(there)
        value = np.round(np.maximum(values[row, time], 0.0), digits)
        metrics[name] = Samples(name, fleet.names(name), start + time * fleet.step, row, value)
    rows = {row for samples in metrics.values() for row in samples.machines}
    parts = {row: (row.split(" ", 1)[0], row.split(" ", 1)[1]) for row in rows if " " in row}
    counted = {name: rate_of(samples) for name, samples in metrics.items() if counts_up(name)}
    metrics |= {name: rate for name, rate in counted.items() if rate is not None}
    return MetricRecording(metrics, absolute=True, source=source, parts=parts)


@dataclass(frozen=True, slots=True)
class Case:
    """A recording and what is wrong in it; ``None`` = nothing is."""

    recording: MetricRecording
    fault: Fault | None


SIZES = (8, 16, 32, 64)  # Of jobs, machines


def cases(
    seed: int,
    *,
    healthy_jobs: int,
    of_each: int,
    hours: tuple[float, float] = (1.0, 2.0),
    sizes: Sequence[int] = SIZES,
) -> Iterator[Case]:
    """Yield healthy jobs, and so many jobs with each fault, of so many machines, each recording of so many hours."""
    for k in range(healthy_jobs + of_each * len(FAULTS)):
        rng = np.random.default_rng([seed, k])
        size, step = int(rng.choice(sizes)), float(rng.choice([10.0, 15.0, 30.0]))
        fleet = healthy(rng, machines=size, step=step, hours=float(rng.uniform(*hours)))
        fault = None if k < healthy_jobs else inject(fleet, FAULTS[(k - healthy_jobs) % len(FAULTS)], rng)
        yield Case(recording(fleet, rng, source=f"job {k}"), fault)
