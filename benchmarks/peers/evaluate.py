"""How many faults are found, how many alarms are false, how long it takes, beside what the paper reports."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers.cases import Case, cases
from benchmarks.peers.faults import DURATIONS, KINDS, SIZES, Fault
from benchmarks.report import section, table
from health.peers.comparison import ComparisonSettings, detect
from health.peers.streams import MetricRecording
from health.peers.verdict import Stretch

Detector = Callable[[MetricRecording], Stretch | None]  # From a recording to the first alert


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case."""

    fault: Fault | None
    alert: Stretch | None  # The first alert; `None` = none

    @property
    def right(self) -> bool:
        """The alert names the machine with the fault, and after it began."""
        fault, alert = self.fault, self.alert
        return fault is not None and alert is not None and alert.machine == fault.machine and alert.end > fault.onset


def with_settings(settings: ComparisonSettings) -> Detector:
    """The first alert that these settings raise."""

    def run(given: MetricRecording) -> Stretch | None:
        for examined in detect(given, settings):
            if examined.alerts:
                return examined.alerts[0]
        return None

    return run


OURS = "as it stands"

VARIANTS: Mapping[str, ComparisonSettings] = {
    OURS: ComparisonSettings(),
    "in every window of four minutes": ComparisonSettings(hold=1.0),
    "without continuity": ComparisonSettings(continuity=0.0),
}
"""What is compared: the default, and the default with one thing changed."""

CONTINUITIES: Mapping[str, float] = {f"{seconds} s": float(seconds) for seconds in (60, 90, 120, 150, 180, 240)}
"""What the curve over the continuity is drawn at."""

PUBLISHED: Mapping[str, tuple[str, str, str]] = {
    "Minder": ("0.904", "0.883", "0.893"),
    "Minder without continuity": ("0.757", "-", "-"),
}
"""Precision, recall and F1 of the paper, on 150 faults of its own clusters, which are not public."""


def judge(given: Iterable[Case], detectors: Mapping[str, Detector]) -> dict[str, list[Result]]:
    """Every detector on every case; each case is made once."""
    results: dict[str, list[Result]] = {name: [] for name in detectors}
    for case in given:
        for name, detector in detectors.items():
            results[name].append(Result(case.fault, detector(case.recording)))
    return results


@dataclass(frozen=True, slots=True)
class Quality:
    """Figures over many cases."""

    precision: float  # Right alerts among all alerts, those on healthy recordings counted
    recall: float  # Faults that were found
    detectable: int  # Faults that are seen alone, in a metric, for longer than the continuity
    detectable_recall: float  # Those of them that were found
    f1: float
    false: int  # Alerts on healthy recordings
    seconds: float  # From the beginning of the fault to the alert, median over those found


def quality(results: Sequence[Result], continuity: float = ComparisonSettings().continuity) -> Quality:
    """Figures of one detector."""
    visible = [one for one in results if one.fault is not None and one.fault.detectable(continuity)]
    right = [one for one in results if one.right]
    alerts = sum(one.alert is not None for one in results)
    faults = sum(one.fault is not None for one in results)
    precision = len(right) / alerts if alerts else 0.0
    recall = len(right) / faults if faults else 0.0
    return Quality(
        precision,
        recall,
        len(visible),
        sum(one.right for one in visible) / len(visible) if visible else 0.0,
        2 * precision * recall / (precision + recall) if right else 0.0,
        sum(one.alert is not None for one in results if one.fault is None),
        _seconds(right),
    )


def _seconds(right: Iterable[Result]) -> float:
    """From the beginning of a fault to its alert, median over the right ones; 0 = there is none."""
    delays = [one.alert.alert - one.fault.onset for one in right if one.alert and one.fault and one.alert.alert]
    return median(delays) if delays else 0.0


def measure(count: int, seed: int = 1) -> dict[str, list[Result]]:
    """All variants on ``count`` recordings with a fault and as many without."""
    detectors = {name: with_settings(settings) for name, settings in VARIANTS.items()}
    for name, seconds in CONTINUITIES.items():
        detectors[name] = with_settings(ComparisonSettings(continuity=seconds))
    faulty = judge(cases(count, seed, healthy=False), detectors)
    healthy = judge(cases(count, seed, healthy=True), detectors)
    return {name: faulty[name] + healthy[name] for name in detectors}


LAST = ("false alarms on healthy", "seconds to alert")


def report(results: Mapping[str, Sequence[Result]]) -> str:
    """Our figures beside the published ones, then where faults are missed."""
    ours = results[OURS]
    faults = sum(one.fault is not None for one in ours)
    rows: list[tuple[str, ...]] = []
    rows += [(f"{name} (published, other data)", *figures, "-", "-", "-") for name, figures in PUBLISHED.items()]
    rows += [(name, *_row(quality(found))) for name, found in results.items() if name not in CONTINUITIES]
    return section(
        f"Peer comparison: {faults} recordings with a fault, {len(ours) - faults} without",
        "The paper's recordings are not public and these are made: the figures stand beside each other and must not be "
        "ranked. What they can say is what each part of the method is worth here.",
        table(["variant", "precision", "recall", "F1", "recall of detectable", *LAST], rows),
        "Over the continuity, each with the faults that are detectable with it: seen alone, in a metric, for longer:",
        _curve(results),
        "Faults found, as it stands:",
        _by("kind", [kind.name for kind in KINDS], ours),
        _by("size", list(SIZES), ours),
        _by("duration", list(DURATIONS), ours),
    )


def _row(found: Quality) -> tuple[str, ...]:
    figures = (f"{value:.3f}" for value in (found.precision, found.recall, found.f1, found.detectable_recall))
    return (*figures, str(found.false), f"{found.seconds:.0f}")


def _curve(results: Mapping[str, Sequence[Result]]) -> str:
    rows = []
    for name, seconds in CONTINUITIES.items():
        precision, recall, _, *rest = _row(found := quality(results[name], seconds))
        rows.append((name, precision, recall, found.detectable, *rest))
    return table(["continuity", "precision", "recall", "detectable faults", "recall of these", *LAST], rows)


def _by(attribute: str, names: Sequence[str], results: Sequence[Result]) -> str:
    rows = []
    for name in names:
        mine = [one for one in results if one.fault is not None and getattr(one.fault, attribute) == name]
        right = [one for one in mine if one.right]
        wrong = sum(one.alert is not None and not one.right for one in mine)
        seconds = f"{_seconds(right):.0f}" if right else "-"
        rows.append((name, len(mine), len(right), wrong, seconds))
    return table([attribute, "faults", "found", "another machine blamed", "seconds to alert"], rows)
