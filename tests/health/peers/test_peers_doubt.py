"""When the machines compared are no peers: nobody is accused, and the verdict says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from health.peers.comparison import ComparisonSettings, detect
from health.peers.metrics import canonical, is_work
from health.peers.streams import MetricRecording
from health.peers.verdict import PeersVerdict, judge
from tests.facts import says
from tests.health.peers.made import Array, recording, values
from topology.flags import FAULTY, WARNING


def verdict(metrics: dict[str, Array]) -> PeersVerdict:
    """The verdict on made metrics."""
    given = recording(metrics)
    return judge(given, list(detect(given, ComparisonSettings())))


def idle(seed: int = 0, *, machines: int = 12, seconds: int = 600) -> Array:
    """Machines at about 0.5 %."""
    return np.abs(np.random.default_rng(seed).normal(0.5, 0.2, (machines, seconds)))


@pytest.mark.parametrize("metric", ["gpu_duty_cycle", "cpu_usage"])
def test_a_busy_machine_among_idle_ones_is_not_accused(metric: str) -> None:
    """One machine at 70 % and eleven at 0.5 %: it works, and the others are nothing to compare it with."""
    made = idle()
    made[4] += 70.0
    assert verdict({metric: made}).flags == ()


def test_what_idle_peers_show_in_other_metrics_is_not_judged_either() -> None:
    """GPUs of eleven machines idle; the twelfth sends PFC packets, as it has somebody to send to: cannot be told."""
    duty, pfc = idle(1), 100.0 * idle(2)
    duty[4] += 70.0
    pfc[4] += 5_000.0
    found = verdict({"gpu_duty_cycle": duty, "pfc_tx_packet_rate": pfc})
    assert found.flags == ()
    assert says(found.verdict, "12", "cannot be told", "n04", "PFC Tx packet rate", "idle")
    assert says(found.notes, "not judged", "n04", "PFC Tx packet rate", "idle")
    # The same packets on machines that work are a fault.
    busy = verdict({"gpu_duty_cycle": values(1) + 40.0, "pfc_tx_packet_rate": pfc})
    assert [flag.node for flag in busy.flags] == ["n04"]


def test_more_work_than_peers_is_no_fault() -> None:
    """n04's GPUs are busier than those of others that work too: told, and not judged."""
    made = values()
    made[4, 100:] += 35.0
    found = verdict({"gpu_duty_cycle": made})
    assert found.flags == ()
    assert says(found.notes, "more GPU duty cycle", "no fault", "1 machine not judged", "n04")
    made[4, 100:] -= 70.0
    assert [flag.node for flag in verdict({"gpu_duty_cycle": made}).flags] == ["n04"]


def test_a_cpu_that_is_busier_than_working_peers_takes_no_node_out_alone() -> None:
    """A process that runs away slows the job, and rank 0 logs: a price, until another metric says it is a fault."""
    made = values()
    made[4, 250:] += 35.0
    (flag,) = verdict({"cpu_usage": made}).flags
    assert (flag.node, flag.kind, flag.slowdown) == ("n04", "degraded", 1.05)
    power = 10.0 * values(1)
    power[4, 250:] *= 0.6
    (flag,) = verdict({"cpu_usage": made, "gpu_power_draw": power}).flags
    assert (flag.node, flag.kind) == ("n04", "faulty")


def with_pause(seconds: int, *, machines: int = 64) -> dict[str, Array]:
    """A healthy job that loads for so many seconds: CPUs at 8 % and GPUs at 5 %, then at 40 and 95 %.

    Rank 0 logs, with 1.35 times the CPU usage of the others once the job works.
    """
    random = np.random.default_rng(5)
    cpu = 40.0 * (1.0 + 0.02 * random.standard_normal((machines, 1))) + random.normal(0.0, 0.5, (machines, 1_200))
    gpu = 95.0 + random.normal(0.0, 0.5, (machines, 1_200))
    cpu[0] *= 1.35
    cpu[:, :seconds] = 8.0 + random.normal(0.0, 0.5, (machines, seconds))
    gpu[:, :seconds] = 5.0 + random.normal(0.0, 0.5, (machines, seconds))
    return {"cpu_usage": cpu, "gpu_duty_cycle": gpu}


@pytest.mark.parametrize("seconds", [0, 10, 120, 300, 600])
def test_a_past_made_of_pauses_convicts_nobody(seconds: int) -> None:
    """While a job loads, rank 0 has as little to do as the others: that it works more later is its role, no change."""
    assert verdict(with_pause(seconds)).flags == ()
    alone = with_pause(seconds)
    # the phase also shows in the GPUs, where the CPUs are as busy with loading as with training
    alone["cpu_usage"][:, :seconds] += 32.0
    assert verdict(alone).flags == ()


def test_a_machine_that_is_as_its_peers_again_is_well() -> None:
    """It has 2.5 times its peers' for the first three minutes, then what they have: what is new is no fault."""
    made = values(seconds=1_200)
    made[4, :180] *= 2.5
    assert verdict({"pressure": made}).flags == ()


def test_a_short_past_convicts_nobody() -> None:
    """A machine 1.6 times above its peers from 60 s on: a minute tells no role, two minutes do."""
    for past, flagged in ((60, []), (130, ["n04"])):
        made = values() * (1.0 + 0.05 * np.random.default_rng(3).standard_normal((12, 1)))
        made[4, past:] *= 1.6
        assert [flag.node for flag in verdict({"pressure": made}).flags] == flagged


@pytest.mark.parametrize("metric", ["gpu_duty_cycle", "value"])
def test_a_cluster_of_inference_pods_accuses_at_most_one(metric: str) -> None:
    """Pods that serve requests: most at 0, eight of 120 in turn at 70 for a quarter of an hour, a sample a minute.

    Made like the duty cycles of Alibaba's cluster-trace-v2026-GenAI, where four pods of 143 stand out so.  There the
    column is called ``value``, which does not say what it is.
    """
    made = np.abs(np.random.default_rng(3).normal(0.0, 5.0, (120, 240)))
    made[made < 9.0] = 0.0
    for k in range(8):
        made[k, 20 * k + 10 : 20 * k + 26] = 70.0
    given = replace_step(recording({metric: made}), 57.0)
    found = judge(given, list(detect(given, ComparisonSettings())))
    assert len(found.flags) <= 1


def replace_step(given: MetricRecording, seconds: float) -> MetricRecording:
    """The same recording with so many seconds between samples."""
    slower = {name: replace(one, time=one.time * seconds) for name, one in given.metrics.items()}
    return replace(given, metrics=slower)


def test_the_only_machine_with_errors_is_at_fault() -> None:
    """A metric that counts errors is 0 on machines that are well: 0 does not call them idle."""
    made = np.zeros((12, 600))
    made[4, 100:] = 30.0
    assert [flag.node for flag in verdict({"dcgm_fi_dev_xid_errors": made}).flags] == ["n04"]
    assert verdict({"requests": made}).flags == ()


def turns(count: int, *, machines: int) -> Array:
    """So many machines idle one after the other, five minutes each."""
    made = values(machines=machines, seconds=320 * count)
    for k in range(count):
        made[k, 320 * k + 5 : 320 * k + 315] *= 0.1
    return made


@pytest.mark.parametrize(("count", "machines", "flagged"), [(2, 12, 2), (3, 12, 0), (3, 60, 3), (4, 60, 0)])
def test_more_than_a_few_that_stand_out_are_no_faults(count: int, machines: int, flagged: int) -> None:
    """Two of any job or one in twenty may be faulty; of more that is not believed, and the verdict counts them."""
    found = verdict({"cpu_usage": turns(count, machines=machines)})
    assert len(found.flags) == flagged
    if not flagged:
        assert says(
            found.verdict, f"of {machines}", "cannot be told", f"{count} of {machines}", "CPU usage", "no peers"
        )


def test_the_search_goes_on_after_a_metric_that_cannot_be_judged() -> None:
    """CPU usage differs by what machines do; the power of one of them has dropped: it is found."""
    power = values(5, seconds=960)
    power[7, 200:] *= 0.3
    found = verdict({"cpu_usage": turns(3, machines=12), "gpu_power_draw": power})
    assert [flag.node for flag in found.flags] == ["n07"]
    assert says(found.notes, "not judged", "3 of 12", "CPU usage")


def test_slow_steps_are_measured_whatever_the_gpus_say() -> None:
    """The time of a step is measured where a machine works: it counts also where a metric calls the peers idle."""
    steps = values(4) / 10.0
    steps[4, 200:] *= 1.5
    assert [flag.kind for flag in verdict({"step_time": steps, "gpu_duty_cycle": idle()}).flags] == ["straggler"]


def test_which_metrics_say_how_much_a_gpu_works() -> None:
    """More of these is no fault; more packets, errors, heat or CPU may be one."""
    work = ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "gpu_power_draw", "nvlink_bandwidth", "GPU-Utilization"]
    other = ["cpu_usage", "pfc_tx_packet_rate", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_TEMP", "step_time"]
    assert [is_work(canonical(name)) for name in work + other] == [True] * 5 + [False] * 5


def test_codes_of_errors_are_events_and_no_levels() -> None:
    """XID 13 and 79 are alike beside machines without: both are flagged, each with its code; that 79 is more means
    nothing where every machine has a code, nor is the only one without at fault.
    """
    made = np.zeros((12, 600))
    made[4, 100:], made[7, 150:] = 13.0, 79.0
    flags = verdict({"dcgm_fi_dev_xid_errors": made}).flags
    assert [flag.node for flag in flags] == ["n04", "n07"]
    assert says(flags[0].evidence, "dcgm_fi_dev_xid_errors 13", "11 peers none")
    assert "dcgm_fi_dev_xid_errors 79," in flags[1].evidence
    # an exception of the graphics engine, as programs cause them, takes no node out
    assert [(flag.kind, flag.slowdown, flag.hardware) for flag in flags] == [
        ("degraded", WARNING, False),
        ("faulty", FAULTY, True),
    ]
    made[:] = 13.0
    made[7, 150:] = 79.0
    assert verdict({"dcgm_fi_dev_xid_errors": made}).flags == ()
    made[7, 150:] = 0.0
    assert verdict({"dcgm_fi_dev_xid_errors": made}).flags == ()


def test_what_differs_for_good_is_no_alert() -> None:
    """A machine 1.4 times above the others all along, or above them as much while all do less, has a role of its own:
    told in the verdict, not flagged, unless it was seen to change before; the same from 250 s on is a fault, and so is
    one far away from the beginning.
    """
    offsets = 1.0 + 0.05 * np.random.default_rng(3).standard_normal((12, 1))
    made = values() * offsets
    made[4] *= 1.4
    found = verdict({"pressure": made})
    assert found.flags == ()
    assert says(found.verdict, "machine of 12", "cannot be told", "n04", "pressure")
    given = recording({"pressure": made})
    seen_before = judge(given, list(detect(given, ComparisonSettings(), changed=["n04"])))
    assert [flag.node for flag in seen_before.flags] == ["n04"]
    calmer = values() * offsets
    calmer[:, 250:] *= 0.5
    calmer[4] *= 1.05
    calmer[4, 250:] *= 1.4
    assert [flag.node for flag in verdict({"pressure": calmer}).flags] == ["n04"]
    broken = values() * offsets
    broken[4] *= 0.1
    assert [flag.node for flag in verdict({"pressure": broken}).flags] == ["n04"]


def test_masks_of_bits_are_not_compared() -> None:
    """Of why a clock is held down 8 is another reason than 4 and no more of it: among hot GPUs (32) the sound one (0)
    would stand out; what else there is counts.
    """
    reasons = np.full((12, 600), 32.0)
    reasons[4] = 0.0
    power = values(5)
    power[7, 200:] *= 0.3
    for name in ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"):
        found = verdict({canonical(name): reasons, "gpu_power_draw": power})
        assert [flag.node for flag in found.flags] == ["n07"]
        assert says(found.notes, "not compared", canonical(name))
    assert verdict({canonical("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"): reasons}).flags == ()
