"""How fast jobs run on each type of GPU, by what they train; and what others measured and published of it.

Gavel: steps a second on K80, P100 and V100 GPUs, ``scheduler/simulation_throughputs.json`` of
github.com/stanford-futuredata/gavel at c4fa4009 (Narayanan et al., OSDI 2020; MIT licence), to four digits.

Pollux: seconds of a job that keeps its GPUs and batch size, from the step times and iterations measured on nodes of
four T4 GPUs in ``simulator/traces`` of github.com/petuum/adaptdl, branch osdi21-artifact (Qiao et al., OSDI 2021;
Apache-2.0 licence): iterations of all epochs times the step time of that placement, between measured batch sizes by
straight lines, with gradients accumulated where a GPU holds fewer samples.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

Rates = dict[tuple[str, int], dict[str, tuple[float, float | None]]]
"""Model and GPUs -> type of GPU -> throughput on as few nodes as hold them, and on more; ``None`` = not known."""


@dataclass(frozen=True, slots=True)
class Throughputs:
    """Throughputs of kinds of jobs; 0 = they do not run there."""

    rates: Rates
    reference: str  # type of GPU of which run times are
    source: str = "as published"  # where it came from, as errors call it

    def together(self, model: str, gpus: int) -> dict[str, float]:
        """Return the throughput of a kind of job on each type of GPU, on as few nodes as hold it."""
        return {name: rate for name, (rate, _) in self.rates.get((model, gpus), {}).items()}

    def rates_of(self, model: str, gpus: float) -> Mapping[str, tuple[float, float | None]]:
        """Return those of a model on as many GPUs, else on the next fewer, else the least; empty = none."""
        sizes = sorted(size for name, size in self.rates if name == model)
        nearest = max([size for size in sizes if size <= gpus], default=sizes[0] if sizes else 0)
        return self.rates.get((model, nearest), {})


GAVEL_TYPES = ("K80", "P100", "V100")  # Types of GPU of the figures below

GAVEL_GPUS = (1, 2, 4, 8)  # Numbers of GPUs of the figures below; a model with one figure was measured on one GPU only

_GAVEL = """
    ResNet-18 (batch size 16): 4.795 8.758 16.12 26.92 | 35.87 60.91 94.32 130.1 | 32.35 100.1 123.9 382.6
        apart: 9.264 17.08 32.28 | 34.89 55.9 79.61 | 35.34 40.59 64.41
    ResNet-18 (batch size 32): 7.176 13.18 22.53 43.92 | 35.83 57.52 97.04 142 | 29.95 94.25 114.7 340
        apart: 14.51 25.51 46.5 | 34.87 53.37 74.43 | 32.66 38.12 63.2
    ResNet-18 (batch size 64): 7.052 12.5 21.63 42.64 | 22.3 41.48 74.99 120 | 24.09 74.14 95.59 255.8
        apart: 13.99 25.07 45.61 | 25.51 40.21 67.77 | 31.48 38.31 63.15
    ResNet-18 (batch size 128): 1.807 3.631 6.982 13.66 | 11.68 24.23 45.35 85.08 | 17.99 23.99 69.95 162.1
        apart: 3.948 7.93 15.77 | 19.57 32.99 60.46 | 24.51 35.36 61.14
    ResNet-18 (batch size 256): 0.8856 1.674 3.405 6.975 | 7.723 14.23 27.73 53.96 | 10.3 15.88 27.78 81.51
        apart: 1.88 3.771 7.742 | 14.67 24.84 45.77 | 19.7 30.23 53.86
    ResNet-50 (batch size 16): 2.301 4.301 7.704 15.06 | 9.053 16.19 30.8 44.76 | 11.4 13.86 23.2 27.8
        apart: 4.683 9.316 18.09 | 12.18 18.06 30.62 | 10.04 14.9 25.17
    ResNet-50 (batch size 32): 1.237 2.353 4.379 8.792 | 4.888 9.749 18.55 33.57 | 7.787 10.83 13.76 24.07
        apart: 2.559 5.04 10 | 9.429 14.84 26.34 | 8.974 12.85 22.83
    ResNet-50 (batch size 64): 0.619 1.264 2.412 4.569 | 2.619 5.516 10.36 18.22 | 4.395 7.922 9.452 17.3
        apart: - - - | 5.606 10.56 18.9 | 6.866 11.14 19.76
    ResNet-50 (batch size 128): 0.3472 0 0 0 | 1.584 2.881 5.191 9.935 | 2.497 4.223 7.029 10.29
        apart: - - - | 2.895 5.575 10.73 | 4.334 7.506 13.94
    Transformer (batch size 16): 5.467 7.047 10.27 18.62 | 9.537 14.31 21.23 29.02 | 11.06 14.15 20.08 71.65
        apart: 5.607 9.736 16.12 | 9.006 14.31 21.11 | 8.875 11.63 19.81
    Transformer (batch size 32): 3.507 5.097 7.985 13.91 | 7.869 11.22 18.16 26.22 | 10.62 13.33 22.82 63.98
        apart: 4.15 6.95 12.3 | 7.696 11.9 19.99 | 8.719 11.96 19.12
    Transformer (batch size 64): 1.752 3.063 5.031 8.976 | 5.092 7.887 13.31 19.94 | 8.618 15.88 19.66 49.65
        apart: 2.727 4.507 8.234 | 5.505 9.007 15.18 | 7.005 10.57 17.01
    Transformer (batch size 128): 0.9816 1.657 2.865 5.257 | 3.074 5.087 8.774 13.68 | 5.446 10.07 14.17 30.88
        apart: 1.566 2.853 5.178 | 3.716 5.878 10.27 | 5.049 7.784 13.03
    Transformer (batch size 256): 0.4583 0.8492 1.513 2.923 | 1.678 2.941 5.243 9.253 | 1.595 2.885 4.763 9.717
        apart: 0.8908 1.572 3.036 | 2.429 3.976 7.314 | 2.233 3.664 6.799
    A3C: 3.439 | 5.681 | 7.176
    LM (batch size 5): 25.49 32.39 44.09 76.86 | 90.78 76.92 110.2 133.5 | 109.2 185.7 126.7 698.8
        apart: 22.13 32.56 63.19 | 38.75 55.37 94.88 | 40.35 44.9 73.12
    LM (batch size 10): 23.79 29.98 42.96 75.57 | 77.08 72.53 105.2 127.8 | 81.65 163.1 121.5 615.1
        apart: 21.14 32.38 62.65 | 37.57 49.17 84.5 | 35.14 37.82 65.52
    LM (batch size 20): 17.14 23.77 35.7 61.45 | 58.17 62.33 93.81 116.6 | 64.74 132.2 111 497.3
        apart: 16.93 29.99 58.07 | 32.86 40.94 65.83 | 30.44 33.4 58.89
    LM (batch size 40): 11.5 16.07 22.99 43.15 | 35.77 48.04 76.05 102.2 | 45.24 91.59 96.03 359.3
        apart: 13.41 23.45 46.32 | 21.28 31.74 58.24 | 21.22 29.17 52.04
    LM (batch size 80): 6.054 10.01 16.39 28.29 | 21.16 31.84 55 82.93 | 28.24 58.09 74.81 231.2
        apart: 10.13 17.43 28.98 | 17.27 26.68 48.89 | 17.75 26.65 47.89
    Recommendation (batch size 512): 32.86 | 48.88 | 23.32
    Recommendation (batch size 1024): 20.05 | 30.74 | 13.28
    Recommendation (batch size 2048): 10.44 | 16.6 | 7.47
    Recommendation (batch size 4096): 5.3 | 8.897 | 3.906
    Recommendation (batch size 8192): 2.699 | 5.548 | 2.842
    CycleGAN: 0.5048 | 2.403 | 4.426
"""


def _gavel_speeds() -> Rates:
    """Return the figures of the table above: of 0 the job did not fit, where a figure is missing none was measured."""
    rates = Rates()
    for name, together, apart in re.findall(r"^    (\S.*?): (.*)(?:\n {8}apart: (.*))?$", _GAVEL, re.MULTILINE):
        columns = [[figures.split() for figures in line.split("|")] for line in (together, apart) if line]
        for of_type, gpu_type in enumerate(GAVEL_TYPES):
            spread = ["-", *(columns[1][of_type] if apart else "")]
            for gpus, near, far in zip(GAVEL_GPUS, columns[0][of_type], spread, strict=False):
                speeds = rates.setdefault((name, gpus), {})
                speeds[gpu_type] = float(near), None if far == "-" else float(far)
    return rates


GAVEL_SPEEDS = _gavel_speeds()
"""Job type and GPUs -> type of GPU -> steps a second on as few servers as hold them, and on one GPU of each server."""

GAVEL = Throughputs(GAVEL_SPEEDS, "V100")  # The same, where run times are those on V100

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
