"""Metrics as exporters and tools write them, made by our own code after their documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

HOSTS, GPUS = 5, 2
START = 1_800_000_000  # 2027-01-15T08:00:00Z


def duty(host: int, gpu: int, second: int) -> int:
    """The duty cycle of a GPU: n2 stands out, the others are near 90 %."""
    return (20 if host == 2 else 90) + (7 * host + 3 * gpu + second) % 4


def dcgm(hosts: Sequence[int] = range(HOSTS), *, second: int = 0) -> str:
    """Text of dcgm-exporter: https://github.com/NVIDIA/dcgm-exporter."""
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for host in hosts:
        for gpu in range(GPUS):
            labels = (
                f'gpu="{gpu}",UUID="GPU-{host}{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100",Hostname="n{host}"'
            )
            lines.append(f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {duty(host, gpu, second)}")
    lines += [
        "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.",
        "# TYPE DCGM_FI_DEV_XID_ERRORS gauge",
    ]
    lines += [f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",Hostname="n{host}"}} 0' for host in hosts]
    return "\n".join(lines) + "\n"


def prometheus(kind: str, seconds: int) -> dict[str, Any]:
    """An answer of Prometheus: ``vector`` of the last second, ``matrix`` of all."""
    result = []
    for host in range(HOSTS):
        for gpu in range(GPUS):
            labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "Hostname": f"n{host}", "gpu": str(gpu)}
            values = [[START + second, str(duty(host, gpu, second))] for second in range(seconds)]
            result.append({"metric": labels} | ({"values": values} if kind == "matrix" else {"value": values[-1]}))
    return {"status": "success", "data": {"resultType": kind, "result": result}}


def answer(kind: str, seconds: int) -> str:
    """The same as text."""
    return json.dumps(prometheus(kind, seconds))


def wide(seconds: int) -> str:
    """A column a GPU, as of Acme (arXiv 2403.07648): addresses with the number of the GPU behind them."""
    names = [(host, gpu) for host in range(HOSTS) for gpu in range(GPUS)]
    rows = ["Time," + ",".join(f"10.140.0.{host}-{gpu}" for host, gpu in names)]
    for second in range(seconds):
        at = f"2027-01-15 {16 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}+08:00"
        rows.append(f"{at}," + ",".join(str(float(duty(host, gpu, second))) for host, gpu in names))
    return "\n".join(rows) + "\n"


def smi(host: int, seconds: int, *, units: bool = True, times: bool = True, named: bool = False) -> str:
    """CSV of ``nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,power.draw,fan.speed --format=csv -l 1``.

    :param units: whether numbers have their units, as without ``nounits``.
    :param named: whether each line begins with the host, as fleets are queried.
    """
    percent, watt = (" %", " W") if units else ("", "")
    head = [
        *(["timestamp"] if times else []),
        "index",
        "name",
        "utilization.gpu [%]",
        "power.draw [W]",
        "fan.speed [%]",
    ]
    rows = [", ".join([*(["host"] if named else []), *head])]
    for second in range(seconds):
        for gpu in range(GPUS):
            at = f"2027/01/15 08:{second // 60:02}:{second % 60:02}.{100 + 5 * gpu}"
            busy = duty(host, gpu, second)
            cells = [str(gpu), "NVIDIA H100 80GB HBM3", f"{busy}{percent}", f"{5 * busy}.25{watt}", "[N/A]"]
            rows.append(", ".join([*([f"n{host}"] if named else []), *([at] if times else []), *cells]))
    return "\n".join(rows) + "\n"
