"""The Helm chart, made from the kustomization: the same objects, with what people set as values.

Texts of ``manifests`` become templates by the substitutions below, each of which must be met: a manifest that changes
under one is an error here, and never a chart that says something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "arnold-system"

SETTLED = '(semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version)'
"""The server has mutating policies; before, perhaps as a beta."""
BETA = '(.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy")'
OLD = f"not (or {SETTLED} {BETA})"
"""The extender does by a webhook what no policy does."""
VERSION = "apiVersion: admissionregistration.k8s.io/"
MUTATING = (f"{VERSION}v1\n", f'{VERSION}{{{{ ternary "v1" "v1beta1" {SETTLED} }}}}\n')
WHOLE_NODE = ('== "8"', "== {{ .Values.gpusOfNode | quote }}")


def image(name: str, values: str) -> tuple[str, str]:
    """Return the change by which an image is the one of some values; a tag may be a number, a date for example, which
    Helm would write with an exponent.
    """
    return f"image: {name}\n", f'image: "{{{{ {values}.repository }}}}:{{{{ toJson {values}.tag | trimAll `"` }}}}"\n'


IMAGE = image("arnold", ".Values.image")


def rolls(config_map: str) -> tuple[str, str]:
    """Return the change by which pods are made anew when a ConfigMap, which is read at the start, is another."""
    checksum = f'checksum/config: {{{{ include (print $.Template.BasePath "/{config_map}") . | sha256sum }}}}'
    template = "    metadata:\n      labels:\n"
    return template, template.replace("      labels:", f"      annotations:\n        {checksum}\n      labels:")


CHANGES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "base/admission.yaml": (MUTATING,),
    "components/all-gpu-pods/admission.yaml": (MUTATING,),
    "base/extender.yaml": (
        ("  replicas: 2\n", "  replicas: {{ .Values.extender.replicas }}\n"),
        IMAGE,
        (
            "--client-ca=/etc/arnold/tls/ca.crt\n",
            "--client-ca=/etc/arnold/tls/ca.crt\n            {{- with .Values.extender.extraArgs }}\n"
            "            {{- toYaml . | nindent 12 }}\n            {{- end }}\n"
            "            {{- if .Values.preemption }}\n            - --preemption=on\n            {{- end }}\n"
            f"            {{{{- if {OLD} }}}}\n            - --webhook\n            {{{{- end }}}}\n",
        ),
        (
            '            requests: {cpu: "1", memory: 1Gi}\n            limits: {memory: 2Gi}\n',
            "            {{- toYaml .Values.extender.resources | nindent 12 }}\n",
        ),
        rolls("settings.yaml"),
    ),
    "base/scheduler.yaml": (
        ("  replicas: 2\n", "  replicas: {{ .Values.scheduler.replicas }}\n"),
        image("kube-scheduler", ".Values.scheduler.image"),
        (
            "            requests: {cpu: 500m, memory: 512Mi}\n            limits: {memory: 2Gi}\n",
            "            {{- toYaml .Values.scheduler.resources | nindent 12 }}\n",
        ),
        rolls("scheduler-config.yaml"),
    ),
    "overlays/self-signed/certificates.yaml": (
        # the pods of a Job cannot be changed, so an upgrade makes another
        (
            "kind: Job\nmetadata:\n  name: arnold-certificates\n",
            "kind: Job\nmetadata:\n  name: arnold-certificates-{{ .Release.Revision }}\n",
        ),
        IMAGE,
        (
            "certificates.py]\n",
            "certificates.py]\n"
            f"          {{{{- if {OLD} }}}}\n          args:\n            - arnold-gang\n"
            "            {{- if .Values.allGpuPods }}\n            - arnold-gpu-pods\n            {{- end }}\n"
            "            {{- if .Values.wholeNodePods }}\n            - arnold-whole-node-pods\n"
            "            {{- end }}\n          {{- end }}\n",
        ),
    ),
    "components/health/watch.yaml": (
        IMAGE,
        rolls("watch-settings.yaml"),
        (
            "--progress=$(PROGRESS)\n",
            "--progress=$(PROGRESS)\n            {{- if .Values.watch.act }}\n            - --policy=act\n"
            "            {{- end }}\n",
        ),
        ("port: 9090}", "port: {{ .Values.watch.port }}}"),
    ),
    "components/whole-node-pods/admission.yaml": (MUTATING, WHOLE_NODE),
    "components/before-1.36/whole-node-pods/webhook.yaml": (WHOLE_NODE,),
    "base/namespace.yaml": (("value: 1000000000\n", "value: {{ .Values.priority | int }}\n"),),
}
"""File below ``manifests`` -> what stands there, and what stands in the template."""

CONDITIONS: Mapping[str, str] = {
    "base/admission.yaml": f"or {SETTLED} {BETA}",
    "components/before-1.36/admission.yaml": OLD,
    "components/before-1.36/webhook.yaml": OLD,
    "components/all-gpu-pods/admission.yaml": f"and .Values.allGpuPods (or {SETTLED} {BETA})",
    "components/before-1.36/all-gpu-pods/webhook.yaml": f"and .Values.allGpuPods ({OLD})",
    "components/whole-node-pods/admission.yaml": f"and .Values.wholeNodePods (or {SETTLED} {BETA})",
    "components/before-1.36/whole-node-pods/webhook.yaml": f"and .Values.wholeNodePods ({OLD})",
    "components/preemption/rbac.yaml": ".Values.preemption",
    "components/native/rbac.yaml": ".Values.nativeGroups",
    "overlays/self-signed/certificates.yaml": '(eq .Values.certificates "self-signed")',
    "overlays/cert-manager/certificates.yaml": '(eq .Values.certificates "cert-manager")',
    "components/health/watch.yaml": ".Values.watch.enabled",
    "components/health-act/rbac.yaml": "(and .Values.watch.enabled .Values.watch.act)",
    "components/monitoring/monitor.yaml": ".Values.monitoring",
    "components/monitoring/alerts.yaml": ".Values.monitoring",
}
"""File below ``manifests`` -> when it is part of the install; the others always are."""

VALUES = """\
# What `helm install arnold manifests/chart --namespace arnold-system` may be told.
# Of `arnold extender serve`:
settings:
{settings}
image:
  repository: arnold
  tag: "{version}"
extender:
  replicas: 2
  # more options of `arnold extender serve`
  extraArgs: []
  resources:
    requests: {{cpu: "1", memory: 1Gi}}
    limits: {{memory: 2Gi}}
scheduler:
  # of your cluster's version, from your registry
  image:
    repository: kube-scheduler
    tag: {scheduler}
  replicas: 2
  resources:
    requests: {{cpu: 500m, memory: 512Mi}}
    limits: {{memory: 2Gi}}
# Who makes the certificates between scheduler and extender: self-signed (a Job, for five years) or cert-manager.
certificates: self-signed
# Of Arnold's own pods; above that of every training job.
priority: 1000000000
# Send every pod with GPUs through Arnold, gang or not.
allGpuPods: false
# Pods that take a whole node stand in the queue like gangs.
wholeNodePods: false
gpusOfNode: "8"
# Gangs take the nodes of others of lower priority.
preemption: false
# Pods of a native PodGroup are bound by one write each; scheduler.image is then built from manifests/native.
nativeGroups: false
# ServiceMonitor, PrometheusRule and Grafana's dashboard; needs the definitions of the Prometheus Operator.
monitoring: false
# `arnold watch`: compares the nodes of each running gang by what Prometheus has of them, and annotates slow ones.
watch:
  enabled: false
  prometheus: http://prometheus-operated.monitoring.svc:9090
  # of Prometheus' pods, which the NetworkPolicy lets through
  port: 9090
  # query that counts steps or collectives by node; empty = gangs that stand still are not looked at
  progress: ""
  # evict the pods of a gang that stands still from the nodes that hold it up
  act: false
"""


def chart_files(dashboard: str) -> Mapping[str, str]:
    """Return the files of the chart: path below ``manifests/chart`` -> text.

    :raises ValueError: a manifest no longer has what a substitution replaces.
    """
    kustomization = _text("base/kustomization.yaml")
    objects = yaml.safe_load(kustomization)
    own = [name for name in objects["resources"] if name.endswith(".yaml")]
    names = [
        *(f"crds/{name}" for name in yaml.safe_load(_text("crds/kustomization.yaml"))["resources"]),
        *(f"base/{name}" for name in own),
        *(name for name in CONDITIONS if not name.startswith("base/")),
    ]
    files = {f"templates/{_template_name(name)}": _template(name) for name in names}
    files["templates/settings.yaml"] = _config_map(
        "arnold-extender-settings", "  {{- toYaml .Values.settings | nindent 2 }}\n"
    )
    files["templates/scheduler-config.yaml"] = _config_map("arnold-scheduler-config", _scheduler_config())
    script = _data("certificates.py", _text("overlays/self-signed/certificates.py"))
    made = _config_map("arnold-certificates-script", script)
    files["templates/certificates-script.yaml"] = _only(CONDITIONS["overlays/self-signed/certificates.yaml"], made)
    panels = '  dashboard.json: |\n{{ .Files.Get "dashboard.json" | indent 4 }}\n'
    shown = _config_map("arnold-dashboard", panels, labels='  labels: {grafana_dashboard: "1"}\n')
    files["templates/dashboard.yaml"] = _only(".Values.monitoring", shown)
    files["dashboard.json"] = dashboard
    words = (f"  {name}: {{{{ .Values.watch.{name} | quote }}}}\n" for name in ("prometheus", "progress"))
    watched = _config_map("arnold-watch-settings", "".join(words))
    files["templates/watch-settings.yaml"] = _only(".Values.watch.enabled", watched)
    tags = {image["name"]: image["newTag"] for image in objects["images"]}
    literals, version = "\n".join(_settings(kustomization)), tags["arnold"]
    values = VALUES.format(settings=literals, version=version, scheduler=tags["kube-scheduler"])
    files["values.yaml"] = values
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **_schema(yaml.safe_load(values))}
    # what a chart around it tells all of its charts, and by which it takes this one in
    schema["properties"] |= {"global": {"type": "object"}, "enabled": {"type": "boolean"}}
    schema["properties"]["certificates"] = {"enum": ["self-signed", "cert-manager"]}
    files["values.schema.json"] = f"{json.dumps(schema, indent=1)}\n"
    files["Chart.yaml"] = (
        "apiVersion: v2\nname: arnold\ntype: application\ndescription: Places whole training gangs by topology\n"
        f'version: {version}\nappVersion: "{version}"\nkubeVersion: ">=1.30.0-0"\n'
    )
    return files


def _schema(value: Any, name: str = "") -> dict[str, Any]:
    """Return the JSON Schema of what may be told in place of a value, so that a slip of the pen is told by Helm."""
    if isinstance(value, dict) and name != "resources":
        parts = {key: _schema(part, key) for key, part in value.items()}
        return {"type": "object", "properties": parts, "additionalProperties": False}
    if name in ("tag", "gpusOfNode"):  # texts that --set takes for numbers
        return {"type": ["string", "integer"]}
    kinds = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return {"type": kinds[type(value)]}


def _text(name: str) -> str:
    return (MANIFESTS / name).read_text(encoding="utf-8")


def _settings(kustomization: str) -> Iterable[str]:
    """Yield the literals of the settings as lines of YAML, with their comments."""
    for line in kustomization.partition("    literals:\n")[2].splitlines():
        literal = re.fullmatch(r"\s+- ([a-z-]+)=(.*)", line)
        if literal is None and not line.strip().startswith("#"):
            return
        yield f"  {literal[1]}: {literal[2]!r}" if literal else f"  {line.strip()}"


def _scheduler_config() -> str:
    """Return the configuration of base, with what its one profile has more in the component ``native`` by a value.

    :raises ValueError: they differ in more than that.
    """
    plain, grouped = _text("base/scheduler-config.yaml"), _text("components/native/scheduler-config.yaml")
    head, name, tail = plain.partition("  - schedulerName: arnold\n")
    plugins = grouped.removeprefix(head + name).removesuffix(tail)
    if head + name + plugins + tail != grouped:
        raise ValueError("base and components/native configure more than one profile's plug-ins differently")
    more = _only(CONDITIONS["components/native/rbac.yaml"], _indented(plugins))
    return f"{_data('config.yaml', head + name)}{more}{_indented(tail)}"


def _template_name(name: str) -> str:
    folder, _, file = name.rpartition("/")
    return file if folder == "base" else f"{folder.rpartition('/')[2]}-{file}"


def _template(name: str) -> str:
    text = _text(name)
    if name == "base/namespace.yaml":  # Helm makes the namespace, or has it
        text = text.partition("---\n")[2]
    text = _escaped(text)
    for old, new in CHANGES.get(name, ()):
        if old not in text:
            raise ValueError(f"manifests/{name} has no {old!r}")
        text = text.replace(old, new)
    if name.startswith("crds/"):  # an uninstall leaves plans, by which pods keep their nodes
        text = text.replace("metadata:\n", "metadata:\n  annotations: {helm.sh/resource-policy: keep}\n", 1)
    return _only(CONDITIONS[name], text) if name in CONDITIONS else text


def _escaped(text: str) -> str:
    """Return a text that Helm renders as it is, but for the namespace."""
    literal = re.sub(r"{{.*?}}", lambda match: f"{{{{ `{match[0]}` }}}}", text)
    return literal.replace(NAMESPACE, "{{ .Release.Namespace }}")


def _only(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _config_map(name: str, data: str, *, labels: str = "") -> str:
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {{{{ .Release.Namespace }}}}\n"
    return f"{head}{labels}data:\n{data}"


def _data(name: str, text: str) -> str:
    return f"  {name}: |\n{_indented(text)}"


def _indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in _escaped(text).splitlines())
