"""The Grafana dashboard of the metrics: a panel for each, made from the table that the program exports."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import Metric

from extender.extender_metrics import Metrics

WIDTH, HEIGHT = 8, 7  # of a panel, in Grafana's grid of 24 columns
TREND, MOMENT = "timeseries", "stat"


def dashboard_text() -> str:
    """Return the dashboard as JSON, its data source and replica chosen by variables."""
    own = Metrics(plans=tuple, leads=bool)  # of a process that has seen nothing yet
    exported = [metric for metric in own.registry.collect() if metric.name.startswith("arnold_")]
    order = {"gauge": 0, "counter": 1, "histogram": 2}
    panels = [_panel(at, metric) for at, metric in enumerate(sorted(exported, key=lambda metric: order[metric.type]))]
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"}
    dashboard = {
        "title": "Arnold",
        "uid": "arnold",
        "schemaVersion": 39,  # of Grafana 10; later ones read it
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["arnold"],
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _panel(at: int, metric: Metric) -> dict[str, Any]:
    labels = {  # what the program itself says of them, where nothing was counted yet
        "arnold_gangs": "phase",
        "arnold_reservations": "phase",
        "arnold_gang_spread": "namespace, gang, family",
        "arnold_gang_gap": "namespace, gang",
        "arnold_gang_queued_seconds": "namespace, gang, reason",
        "arnold_gang_queued_nodes": "namespace, gang, reason",
        "arnold_refused": "reason",
        "arnold_writes": "kind, outcome",
    }.get(metric.name, "")
    by = f" by ({labels})" if labels else ""
    legend = " ".join(f"{{{{{name}}}}}" for name in labels.split(", ")) if labels else metric.name
    if metric.type == "histogram":
        queries = [
            (f"histogram_quantile({share}, sum by (le) (rate({metric.name}_bucket[5m])))", f"p{round(share * 100)}")
            for share in (0.5, 0.99)
        ]
    elif metric.type == "counter":
        queries = [(f"sum{by} (rate({metric.name}_total[5m]))", legend)]
    else:  # each replica sees the whole cluster, so the most that one says is the value
        queries = [(f"max{by} ({metric.name})", legend)]
    return {
        "id": at + 1,
        "type": TREND if labels or metric.type != "gauge" else MOMENT,
        "title": metric.documentation,
        "description": metric.name,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": "s" if metric.name.endswith("_seconds") else "short"}, "overrides": []},
        "gridPos": {"x": at * WIDTH % 24, "y": at * WIDTH // 24 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": name}
            for number, (expression, name) in enumerate(queries)
        ],
    }
