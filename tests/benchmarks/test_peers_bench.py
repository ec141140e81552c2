"""The evaluation bench of the peer comparison: same seed, same streams; faults are where they are said to be."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.__main__ import EVIDENCE
from benchmarks.evidence import single_parts
from benchmarks.peers import fleet
from benchmarks.peers.cases import cases
from benchmarks.peers.evaluate import Result, judge, quality, with_settings
from benchmarks.peers.faults import KINDS, Effect, Fault, Kind, inject
from benchmarks.peers.picture import picture
from benchmarks.peers.streams import SHAPES, healthy_job, recording
from health.peers.comparison import ComparisonSettings, WorkingTimes, detect, doubted, examine
from health.peers.streams import align
from health.peers.verdict import Stretch
from health.peers.verdict import judge as judge_peers
from tests.case_counts import cases as case_count


def test_same_seed_same_cases() -> None:
    """Cases are a function of seed and number alone."""
    first, second = (list(cases(2, 5, healthy=False)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.fault == other.fault
        assert all(np.array_equal(one.recording.metrics[n].value, other.recording.metrics[n].value) for n in SHAPES)


def test_healthy_metrics_are_in_their_range() -> None:
    """Nothing is negative or above its top, and machines are near the level that the shape says."""
    rng = np.random.default_rng(1)
    made = recording(healthy_job(8, rng), rng, source="test")
    for name, shape in SHAPES.items():
        value = made.metrics[name].value
        assert value.min() >= 0.0
        assert value.max() <= shape.top
        low, high = sorted((shape.busy, shape.calm))
        assert 0.8 * low <= np.median(value) <= 1.2 * high


def test_a_fault_changes_its_machine_and_nobody_before_it() -> None:
    """CPU at 0.3 from 300 s on: a third afterwards, untouched before; the other machines keep theirs."""
    rng = np.random.default_rng(2)
    job = healthy_job(6, rng)
    before = job.values["cpu_usage"].copy()
    kind = Kind("test", 1.0, {"cpu_usage": Effect(0.3, 1.0)})
    inject(job, kind, Fault("test", "n0002", 300, "full", "to the end"), rng)
    after = job.values["cpu_usage"]
    assert after[2, 300:] == pytest.approx(0.3 * before[2, 300:])
    after[2, 300:] = before[2, 300:]
    assert np.array_equal(after, before)


def test_shares_of_the_kinds() -> None:
    """Table 1 of the paper: ten kinds that make up 89.8 % of its faults."""
    assert len(KINDS) == 10
    assert sum(kind.share for kind in KINDS) == pytest.approx(89.8)


def test_figures_by_hand() -> None:
    """Three faults: one found, one missed, one blamed on another machine; a false alarm among two healthy ones."""

    def result(machine: str | None, alerted: str | None) -> Result:
        fault = None if machine is None else Fault("k", machine, 100, "full", "8 min")
        seen = Stretch(alerted or "", 110.0, 500.0, 350.0, 9.0, 1.0, 2.0, None, None, False, None, None)
        return Result(fault, None if alerted is None else seen)

    found = quality([result("a", "a"), result("a", None), result("a", "b"), result(None, "c"), result(None, None)])
    # One right alert of three, one found fault of three.
    assert (found.precision, found.recall, found.f1) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert (found.false, found.seconds) == (1, 250.0)
    # None of the three is known to be seen alone.
    assert (found.detectable, found.detectable_recall) == (0, 0.0)


def test_which_faults_are_detectable() -> None:
    """One that lasts 300 s is detectable with four minutes, not with five; from 700 s on it lasts 200."""
    five, late = (
        Fault("k", "a", onset, "full", name, alone=True) for onset, name in ((100, "5 min"), (700, "to the end"))
    )
    assert [five.detectable(240.0), five.detectable(300.0)] == [True, False]
    assert [late.detectable(180.0), late.detectable(240.0)] == [True, False]
    assert not replace(five, alone=False).detectable(60.0)


@pytest.mark.parametrize(("change", "alone"), [({}, True), ({"group": 1.0}, False), ({"unseen": 1.0}, False)])
def test_a_fault_that_its_group_shows_or_nobody_sees_is_not_seen_alone(change: dict[str, float], alone: bool) -> None:
    """The streams say it: a fault in one metric of one machine, then of its group, then of one that is silent."""
    rng = np.random.default_rng(2)
    job = healthy_job(8, rng)
    kind = Kind("test", 1.0, {"cpu_usage": Effect(0.3, 1.0)}, **change)
    assert inject(job, kind, Fault("test", "n0002", 300, "full", "to the end"), rng).alone == alone


def test_an_alert_before_the_fault_is_not_right() -> None:
    """The right machine, for something that was over before the fault began, is a false alarm."""
    fault = Fault("k", "a", 400, "full", "8 min")
    assert not Result(fault, Stretch("a", 50.0, 390.0, 300.0, 9.0, 1.0, 2.0, None, None, False, None, None)).right


def test_a_plain_fault_is_found() -> None:
    """The first case of a kind that stops the machine at full size is found by the default, and by nobody's luck."""
    rng = np.random.default_rng(3)
    job = healthy_job(16, rng)
    kind = Kind("test", 1.0, {"gpu_power_draw": Effect(0.3, 1.0)})
    fault = Fault("test", "n0002", 200, "full", "to the end")
    inject(job, kind, fault, rng)
    given = recording(job, rng, source="test")
    alert = with_settings(ComparisonSettings())(given)
    assert Result(fault, alert).right


def test_judging_makes_each_case_once() -> None:
    """Every detector sees every case."""
    given = cases(2, 6, healthy=True)
    results = judge(given, {"never": lambda _: None, "always": lambda _: None})
    assert {name: len(found) for name, found in results.items()} == {"never": 2, "always": 2}


def test_the_picture_of_the_documentation() -> None:
    """It can be drawn anew, is well-formed XML, and shows fault and alert; so does the file of the documentation."""
    page = Path(__file__).parents[2] / "docs" / "how-it-works" / "health" / "peers.svg"
    for text in (picture(), page.read_text(encoding="utf-8")):
        words = [element.text for element in ElementTree.fromstring(text).iter() if element.text]
        assert {"fault", "alert"} <= set(words)


def test_no_fault_that_was_found_is_doubted_away() -> None:
    """Recall does not suffer from the doubts: of made faults, every alert on the faulty machine stays one."""
    settings, kept, alerts = ComparisonSettings(), 0, 0
    for case in cases(case_count(36), 11, healthy=False):
        assert case.fault is not None
        for samples in case.recording.metrics.values():
            grid, working = align(samples, machines=case.recording.machines), WorkingTimes(case.recording)
            found = examine(grid, settings, working, parts={})
            alerts += case.fault.machine in {one.machine for one in found.alerts}
            kept += case.fault.machine in {one.machine for one in doubted(found, case.recording).alerts}
    assert kept == alerts > 0


def test_a_single_gpu_or_port_is_found_and_named() -> None:
    """A job of each kind of fault of a realistic fleet: the machine is flagged, and of a part its name is said."""
    for case in fleet.cases(3, healthy_jobs=0, of_each=1, hours=(1.0, 1.0), sizes=fleet.SIZES[:1]):
        assert case.fault is not None
        found = judge_peers(case.recording, list(detect(case.recording, ComparisonSettings())))
        assert [flag.node for flag in found.flags] == [case.fault.machine], case.fault
        assert case.fault.part in found.flags[0].evidence


def test_every_table_of_evidence_can_be_asked_for() -> None:
    """A module of the folder with a table is a word of --tables, and takes the options of the others."""
    folder = Path(single_parts.__file__).parent
    tables = {path.stem: import_module(f"benchmarks.evidence.{path.stem}") for path in folder.glob("[a-z]*.py")}
    with_table = {name: module for name, module in tables.items() if hasattr(module, "table")}
    assert with_table.keys() == {*EVIDENCE}
    for module in with_table.values():
        signature(module.table).bind(seeds=1, torch="", nvrx="", runs=Path(), public=False)


def test_figures_of_single_parts_by_hand() -> None:
    """One fault found after 240 s and another machine accused beside it, one healthy job accused: 1 of 3 alarms."""
    result = single_parts.Result(dict.fromkeys(fleet.FAULTS, 0))
    fault = fleet.Fault("hot", "a", "GPU 1", 100.0)
    result.take(fault, {"a": 1_340.0, "b": 1_000.0}, 1_000.0)
    result.take(fault, {"a": 1_050.0}, 1_000.0)  # before the fault began
    result.take(None, {"c": 1_000.0}, 1_000.0)
    assert (result.found["hot"], result.delays, result.accused_healthy, result.accused_others) == (1, (240.0,), 1, 1)
    assert single_parts.figures(result, 2) == pytest.approx((1 / 3, 1 / 2, 2 / 5))
