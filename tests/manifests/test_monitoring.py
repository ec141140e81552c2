"""Alerts and dashboard: they name metrics that there are, and each alert fires when it should and not before."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.extender_metrics import Metrics
from tests.e2e.harness.programs import Unavailable, Unfetched, from_module
from tests.manifests.rendering import MANIFESTS, read

FOLDER = MANIFESTS / "components" / "monitoring"
PROMTOOL = ("github.com/prometheus/prometheus/cmd/promtool", "v0.316.0")
WITHOUT_CLOUDS = "remove_all_sd"
"""Build tag: the SDKs of a dozen clouds, by which Prometheus finds targets, would take most of the time."""
EXPORTED = {
    sample
    for metric in Metrics(plans=tuple, leads=bool).registry.collect()
    for sample in (metric.name, f"{metric.name}_total", f"{metric.name}_bucket")
}
GANG = 'namespace="train", gang="llm"'


def alerts() -> dict[str, Any]:
    """The rules by name."""
    (rules,) = read("components/monitoring/alerts.yaml")
    (group,) = rules["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    """A name that the program does not export never fires, and shows an empty panel."""
    expressions = [rule["expr"] for rule in alerts().values()]
    panels = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for expression in expressions for name in re.findall(r"\barnold_[a-z_]+", expression)}
    assert named <= EXPORTED
    assert len(panels) == len({name for name in EXPORTED if name.startswith("arnold_")}) // 3  # each has its panel


def test_every_alert_says_how_to_fix_it() -> None:
    """What is wrong in a line, and where to look."""
    for rule in alerts().values():
        assert "To fix:" in rule["annotations"]["description"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


FIRES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "ArnoldHasNoLeader": (
        {'arnold_leader{pod="a"}': "0x300", 'arnold_leader{pod="b"}': "0x300"},
        {'arnold_leader{pod="a"}': "0x300", 'arnold_leader{pod="b"}': "1x300"},
    ),
    "ArnoldNotReady": ({'arnold_ready{pod="a"}': "0x300"}, {'arnold_ready{pod="a"}': "1x300"}),
    # five nodes wanted beside five free ones; beside four it waits as it must
    "ArnoldGangWaitsBesideRoom": (
        {
            f'arnold_gang_queued_seconds{{{GANG}, reason="NoRoom"}}': "0+60x300",
            f'arnold_gang_queued_nodes{{{GANG}, reason="NoRoom"}}': "5x300",
            "arnold_free_nodes": "5x300",
        },
        {
            f'arnold_gang_queued_seconds{{{GANG}, reason="NoRoom"}}': "0+60x300",
            f'arnold_gang_queued_nodes{{{GANG}, reason="NoRoom"}}': "5x300",
            "arnold_free_nodes": "4x300",
        },
    ),
    "ArnoldGangCannotBePlanned": (
        {f'arnold_gang_queued_seconds{{{GANG}, reason="CannotBePlanned"}}': "0+60x300"},
        {f'arnold_gang_queued_seconds{{{GANG}, reason="NoRoom"}}': "0+60x300"},
    ),
    "ArnoldPromisedAndUnused": ({"arnold_unbound_ranks": "1x300"}, {"arnold_unbound_ranks": "8x10 0x290"}),
    "ArnoldWritesRefused": (
        {'arnold_writes_total{kind="plan", outcome="error"}': "0+6x300"},
        {'arnold_writes_total{kind="plan", outcome="ok"}': "0+600x300"},
    ),
    "ArnoldPlansUnproved": ({f"arnold_gang_gap{{{GANG}}}": "0.2x300"}, {f"arnold_gang_gap{{{GANG}}}": "0.01x300"}),
    "ArnoldPodsPassedOver": ({"arnold_passed_over_pods": "4x300"}, {"arnold_passed_over_pods": "0x300"}),
}
"""Alert -> series, a value a minute for five hours, under which it fires at the end, and under which it does not."""


def test_there_is_a_case_of_every_alert() -> None:
    """None is left out below."""
    assert {*FIRES} == {*alerts()}


@pytest.fixture(scope="module")
def promtool_for_plane() -> str:
    """Prometheus' own checker of rules; built like the programs of the control plane."""
    try:
        return str(from_module(*PROMTOOL, lambda message: print(message, file=sys.stderr), tags=WITHOUT_CLOUDS))
    except (Unavailable, Unfetched) as reason:
        pytest.skip(f"promtool cannot be had: {reason}")


def test_each_alert_fires_once_and_only_when_it_should(promtool_for_plane: str, tmp_path: Path) -> None:
    """Prometheus' own evaluation of every rule on series made for it."""
    (rules,) = read("components/monitoring/alerts.yaml")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules["spec"]), encoding="utf-8")
    at = "299m"
    cases = [
        {
            "name": f"{alert}, {'bad' if bad else 'good'}",
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                    "eval_time": at,
                    "exp_samples": [{"labels": "{}", "value": 1}] if bad else [],
                }
            ],
        }
        for alert, both in FIRES.items()
        for bad, series in zip((True, False), both, strict=True)
    ]
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"]):
        done = subprocess.run([promtool_for_plane, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
