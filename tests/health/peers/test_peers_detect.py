"""The pipeline as a whole: who stands out, for how long, and what follows for the scheduler."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from ground.errors import InvalidInput
from health.peers.comparison import ComparisonSettings, detect
from health.peers.metrics import canonical, in_order, is_step_time
from health.peers.verdict import PeersVerdict, judge
from tests.facts import says
from tests.health.peers.made import SECONDS, Array, recording, values
from topology.flags import FAULTY


def verdict(metrics: dict[str, Array], settings: ComparisonSettings | None = None, **how: object) -> PeersVerdict:
    """The verdict on made metrics."""
    given = recording(metrics, **how)  # type: ignore[arg-type]
    return judge(given, list(detect(given, settings or ComparisonSettings())))


def test_healthy_machines_are_not_flagged() -> None:
    """A common rhythm and noise: nobody stands out, and the verdict says so."""
    found = verdict({"cpu_usage": values()})
    assert found.flags == ()
    assert says(found.verdict, "no machine of 12", "CPU usage")


def test_a_machine_that_differs_for_minutes_is_faulty() -> None:
    """n03 idles from second 200 to 520; it is faulty, and the alert comes four minutes later."""
    made = values()
    made[3, 200:520] *= 0.1
    found = verdict({"cpu_usage": made})
    (flag,), (alert,) = found.flags, found.metrics[0].alerts
    assert (flag.node, flag.kind, flag.slowdown, flag.source) == ("n03", "faulty", FAULTY, "peers")
    assert "CPU usage 5" in flag.evidence
    # A window stands out when some of its eight samples have changed: the first begins at 193 to 197.
    assert 193 <= alert.start <= 197
    # The last of the 240 windows of four minutes begins 239 s after the first and ends 7 s later.
    assert alert.alert == alert.start + 239 + 7
    # Likewise the last window begins at 515 to 519 and ends 7 s later.
    assert 522 <= alert.end <= 526
    assert (flag.since, flag.until) == (None, None)


def test_a_burst_shorter_than_the_continuity_is_not_flagged() -> None:
    """200 s are less than four minutes; with a continuity of two minutes they are enough."""
    made = values()
    made[3, 200:400] *= 0.1
    assert verdict({"cpu_usage": made}).flags == ()
    assert [flag.node for flag in verdict({"cpu_usage": made}, ComparisonSettings(continuity=120.0)).flags] == ["n03"]


def test_another_machines_moment_does_not_end_a_stretch() -> None:
    """n05 stands out more for 12 of 320 seconds; n03 does so meanwhile as well, and is flagged."""
    made = values()
    made[3, 200:520] -= 20.0
    made[5, 300:312] += 400.0
    for hold in (0.9, 1.0):
        found = verdict({"cpu_usage": made}, ComparisonSettings(hold=hold))
        assert [flag.node for flag in found.flags] == ["n03"]


def test_a_pause_within_a_tenth_does_not_end_a_stretch() -> None:
    """n03 is as its peers are for 8 of 320 seconds: 90 % of every four minutes are held, not all of them."""
    made = values()
    healthy = made[3, 340:348].copy()
    made[3, 200:520] -= 20.0
    made[3, 340:348] = healthy
    assert [flag.node for flag in verdict({"cpu_usage": made}).flags] == ["n03"]
    assert verdict({"cpu_usage": made}, ComparisonSettings(hold=1.0)).flags == ()


def test_two_machines_that_take_turns_are_not_flagged() -> None:
    """Each is the candidate half of the time: neither for four minutes."""
    made = values()
    for begin in range(100, 500, 40):
        made[3 + begin // 40 % 2, begin : begin + 40] -= 40.0
    assert verdict({"cpu_usage": made}).flags == ()


def test_a_pair_that_differs_alike_is_not_flagged() -> None:
    """Two machines of twelve at another level have each other: half of the job would be next."""
    made = values()
    made[[3, 4, 5, 6], 100:] -= 30.0
    assert verdict({"cpu_usage": made}).flags == ()


def test_all_metrics_are_looked_at() -> None:
    """A machine that stands out in one metric does not hide another that does in the next."""
    cpu, power = values(1), values(2)
    cpu[2, 200:] *= 0.1
    power[7, 200:] *= 0.1
    given = recording({"gpu_power_draw": power, "cpu_usage": cpu})
    assert [flag.node for flag in judge(given, list(detect(given, ComparisonSettings()))).flags] == ["n02", "n07"]


def test_a_slow_step_time_is_a_straggler_by_its_factor() -> None:
    """n04 takes 1.5 times as long for two minutes: a straggler by 1.5, until it is well again."""
    made = values(4) / 10.0
    made[4, 300:420] *= 1.5
    found = verdict({"step_time_seconds": made}, absolute=True, start=1_800_000_000.0)
    (flag,) = found.flags
    assert (flag.node, flag.kind) == ("n04", "straggler")
    # The median over a rhythm of which both ends are cut differs a little from 1.5.
    assert flag.slowdown == pytest.approx(1.5, abs=0.08)
    begun = datetime.fromtimestamp(1_800_000_300, UTC)
    assert flag.since is not None
    assert flag.until is not None
    assert abs((flag.since - begun).total_seconds()) <= 8
    assert abs((flag.until - begun).total_seconds() - 120) <= 8


def test_a_machine_whose_steps_are_fast_is_not_flagged() -> None:
    """Half the time of its peers slows nobody."""
    made = values(4) / 10.0
    made[4, 200:] *= 0.5
    assert verdict({"step_time": made}).flags == ()


def test_a_straggler_with_a_known_cause_is_degraded() -> None:
    """Slow steps, and power that says why: the factor stands, the machine is not excluded."""
    steps, power = values(4) / 10.0, values(5)
    steps[4, 200:] *= 1.5
    power[4, 200:] *= 0.5
    (flag,) = verdict({"step_time": steps, "gpu_power_draw": power}).flags
    assert (flag.node, flag.kind) == ("n04", "degraded")
    assert 1.4 < flag.slowdown < 1.6
    assert "GPU power draw" in flag.evidence


def test_a_machine_that_falls_silent_is_named_and_not_flagged() -> None:
    """What is not there proves nothing: no flag, and a note with the machine's name."""
    made = values()
    made[6, 150:] = np.nan
    found = verdict({"cpu_usage": made})
    assert found.flags == ()
    assert any("fallen silent" in note and "n06" in note for note in found.notes)


def test_silent_machines_are_no_peers() -> None:
    """With nine of twelve machines silent three are left, which is too few: an outlier among them is not flagged."""
    made = values()
    made[3:, 100:] = np.nan
    made[0, 120:] *= 0.1
    assert verdict({"cpu_usage": made}).flags == ()


def test_a_fault_among_silent_machines_is_found() -> None:
    """Four of twelve machines silent, eight left to compare: the one that idles is flagged."""
    made = values()
    made[8:, 100:] = np.nan
    made[0, 200:] *= 0.1
    assert [flag.node for flag in verdict({"cpu_usage": made}).flags] == ["n00"]


def test_a_clock_an_hour_ahead_flags_nobody() -> None:
    """n06's samples are stamped an hour late: it has no peers there, and its peers lack nobody's company here."""
    given = recording({"cpu_usage": values()})
    one = given.metrics["cpu_usage"]
    one.time[one.machine == 6] += 3600.0
    assert judge(given, list(detect(given, ComparisonSettings()))).flags == ()


@pytest.mark.parametrize("skew", [5, -5, 15, 60, 75, 0.5, 3])
def test_a_clock_that_is_wrong_flags_nobody(skew: float) -> None:
    """n06 stamps its samples late or early; at half of the rhythm of ten seconds it is high where its peers are low."""
    given = recording({"cpu_usage": values(seconds=900)})
    one = given.metrics["cpu_usage"]
    one.time[one.machine == 6] += skew
    found = judge(given, list(detect(given, ComparisonSettings())))
    assert found.flags == ()
    # Whole rhythms and half of them early or late look alike, so how much it is off is not certain.
    assert any("n06 does what its peers do" in note for note in found.notes) == (skew % 10 == 5)


def test_a_fault_on_a_machine_with_a_wrong_clock_is_found() -> None:
    """n06 is five seconds late and idles from 200 on: no shift explains that."""
    made = values(seconds=900)
    made[6, 200:] *= 0.1
    given = recording({"cpu_usage": made})
    one = given.metrics["cpu_usage"]
    one.time[one.machine == 6] += 5.0
    assert [flag.node for flag in judge(given, list(detect(given, ComparisonSettings()))).flags] == ["n06"]


def test_flat_and_short_metrics_are_harmless() -> None:
    """All machines equal, or fewer samples than a window: nothing is said about anybody."""
    assert verdict({"cpu_usage": np.full((6, 400), 7.0)}).flags == ()
    assert verdict({"cpu_usage": values(seconds=5)}).flags == ()


def test_exporters_that_name_a_machine_differently_hide_no_fault() -> None:
    """The exporter of CPUs calls machines by their addresses, that of GPUs by their names: each metric has 12 peers."""
    made, gpus = values(), values(1)
    made[3, 200:520] *= 0.1
    gpus[5, 200:520] *= 0.1
    given = recording({"cpu_usage": made, "gpu_power_draw": gpus})
    cpus = replace(given.metrics["cpu_usage"], machines=tuple(f"10.0.0.{k:02}" for k in range(len(made))))
    given = replace(given, metrics={**given.metrics, "cpu_usage": cpus})
    found = judge(given, list(detect(given, ComparisonSettings())))
    assert (found.machines, [flag.node for flag in found.flags]) == (12, ["10.0.0.03", "n05"])
    assert all("its 11 peers" in flag.evidence for flag in found.flags)
    (note,) = given.only(["n05", "n06"]).notes
    assert says(note, "cpu_usage", "10.0.0.00")
    few = replace(given, metrics={name: samples.only(samples.machines[:3]) for name, samples in given.metrics.items()})
    with pytest.raises(InvalidInput, match="has 3 machines"):
        list(detect(few, ComparisonSettings()))


def test_three_machines_are_too_few() -> None:
    """A job of three machines has no peers to speak of."""
    with pytest.raises(InvalidInput, match="4 or more"):
        verdict({"cpu_usage": values(machines=3)})


def test_nobody_is_excluded_for_a_single_sample() -> None:
    """At one sample a minute four minutes are four windows: nine are asked for, and a spike moves no median."""
    made = values(seconds=120)
    made[3, 60] = 500.0
    given = recording({"cpu_usage": made})
    given.metrics["cpu_usage"].time[:] *= 60.0
    (one,) = detect(given, ComparisonSettings())
    assert (one.step, one.needed, one.alerts) == (60.0, 9 * 60.0, [])


def test_a_slowdown_below_a_tenth_is_not_flagged() -> None:
    """1.05 times as long, steadily and plain to see, is not worth a flag; 1.2 times is."""
    steady = 5.0 + 0.001 * np.random.default_rng(1).normal(size=(12, 400))
    for factor, flagged in ((1.05, []), (1.2, ["n04"])):
        made = steady.copy()
        made[4, 100:] *= factor
        assert [flag.node for flag in verdict({"step_time": made}).flags] == flagged


def test_scale_and_unit_do_not_matter() -> None:
    """The same metric in another unit gives the same stretches: all is normalised."""
    made = values()
    made[3, 200:520] *= 0.1
    first, second = (
        next(detect(recording({"odd_metric": scale * made}), ComparisonSettings())).alerts[0] for scale in (1.0, 1e-6)
    )
    assert (first.machine, first.start, first.end) == (second.machine, second.start, second.end)


def test_names_of_metrics() -> None:
    """Exporters' names are known, step times come first, what is not known comes last."""
    assert canonical("DCGM_FI_DEV_POWER_USAGE") == "gpu_power_draw"
    assert canonical("My-Metric") == "my_metric"
    assert [is_step_time(name) for name in ("batch_time_norm", "step_seconds", "iteration_time", "uptime")] == [
        True,
        True,
        True,
        False,
    ]
    assert in_order(["zz", "gpu_power_draw", "pfc_tx_packet_rate", "step_time"]) == [
        "step_time",
        "pfc_tx_packet_rate",
        "gpu_power_draw",
        "zz",
    ]


def test_same_input_same_verdict() -> None:
    """Nothing is left to chance."""
    made = values()
    made[3, 100:SECONDS] *= 0.2
    assert verdict({"cpu_usage": made}) == verdict({"cpu_usage": made})
