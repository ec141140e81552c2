"""How fast jobs ran where a workload says what they do, and not how long: measured by those who published it.

Gavel: steps a second on V100 GPUs, ``scheduler/simulation_throughputs.json`` of github.com/stanford-futuredata/gavel at
c4fa4009 (Narayanan et al., OSDI 2020; MIT licence), to four digits.

Pollux: seconds of a job that keeps its GPUs and batch size, from the step times and iterations measured on nodes of
four T4 GPUs in ``simulator/traces`` of github.com/petuum/adaptdl, branch osdi21-artifact (Qiao et al., OSDI 2021;
Apache-2.0 licence): iterations of all epochs times the step time of that placement, between measured batch sizes by
straight lines, with gradients accumulated where a GPU holds fewer samples.
"""

from __future__ import annotations

import re

GAVEL_GPUS = (1, 2, 4, 8)
"""Numbers of GPUs of the figures below; a model with one figure was measured on one GPU only."""

GAVEL_STEPS = {
    "ResNet-18 (batch size 16)": (32.35, 100.1, 123.9, 382.6),
    "ResNet-18 (batch size 32)": (29.95, 94.25, 114.7, 340),
    "ResNet-18 (batch size 64)": (24.09, 74.14, 95.59, 255.8),
    "ResNet-18 (batch size 128)": (17.99, 23.99, 69.95, 162.1),
    "ResNet-18 (batch size 256)": (10.3, 15.88, 27.78, 81.51),
    "ResNet-50 (batch size 16)": (11.4, 13.86, 23.2, 27.8),
    "ResNet-50 (batch size 32)": (7.787, 10.83, 13.76, 24.07),
    "ResNet-50 (batch size 64)": (4.395, 7.922, 9.452, 17.3),
    "ResNet-50 (batch size 128)": (2.497, 4.223, 7.029, 10.29),
    "Transformer (batch size 16)": (11.06, 14.15, 20.08, 71.65),
    "Transformer (batch size 32)": (10.62, 13.33, 22.82, 63.98),
    "Transformer (batch size 64)": (8.618, 15.88, 19.66, 49.65),
    "Transformer (batch size 128)": (5.446, 10.07, 14.17, 30.88),
    "Transformer (batch size 256)": (1.595, 2.885, 4.763, 9.717),
    "A3C": (7.176,),
    "LM (batch size 5)": (109.2, 185.7, 126.7, 698.8),
    "LM (batch size 10)": (81.65, 163.1, 121.5, 615.1),
    "LM (batch size 20)": (64.74, 132.2, 111, 497.3),
    "LM (batch size 40)": (45.24, 91.59, 96.03, 359.3),
    "LM (batch size 80)": (28.24, 58.09, 74.81, 231.2),
    "Recommendation (batch size 512)": (23.32,),
    "Recommendation (batch size 1024)": (13.28,),
    "Recommendation (batch size 2048)": (7.47,),
    "Recommendation (batch size 4096)": (3.906,),
    "Recommendation (batch size 8192)": (2.842,),
    "CycleGAN": (4.426,),
}
"""Job type -> steps a second on each of :data:`GAVEL_GPUS`."""

_POLLUX = """
    cifar10 1x128:4028 4x512:1165 4x1024:1162 4x2048:1254 4x4096:1588 6x2048:854 8x1024:1318 8x2048:826 8x4096:904
        10x4096:701 12x4096:573 16x4096:449
    yolov3 1x8:33738 2x16:18869 4x32:13740 4x64:12870 8x64:23860 10x512:9762 12x256:9315 14x512:7671 16x128:9592
    deepspeech2 1x20:19439 2x80:9823 4x80:6376 4x160:4982 4x320:5938 6x320:4153 8x160:6140 8x320:3501 12x640:2573
    bert 1x12:13614 1x64:15779 4x48:3572 6x384:3056 8x384:2480 10x384:1835 12x384:1589 14x384:1537 16x384:1335
    imagenet 1x800:554429 8x1600:79621 10x1600:62077 12x3200:57479 14x3200:50228 16x3200:44072 24x3200:31396
        32x6400:26207 48x6400:18880
    ncf 1x256:1444 1x32768:33 2x512:938 4x1024:587 8x2048:927
"""
_SIZES = re.compile(r"(\d+)x(\d+):(\d+)")
POLLUX_SECONDS = {
    block.split()[0]: {(int(gpus), int(batch)): float(seconds) for gpus, batch, seconds in _SIZES.findall(block)}
    for block in re.split(r"\n(?= {4}\S)", _POLLUX)[1:]
}
"""Application -> (GPUs, batch size) -> seconds, for what the workloads of Pollux and Sia hold."""


def gavel_steps(job_type: str, gpus: int) -> float | None:
    """Return steps a second of a job on so many GPUs, or on as many as were measured; ``None`` = of no type known."""
    steps = GAVEL_STEPS.get(job_type)
    if steps is None:
        return None
    return max(zip(GAVEL_GPUS, steps, strict=False), key=lambda one: (one[0] <= gpus, one[0] if one[0] <= gpus else 0))[
        1
    ]
