"""What Gavel's job types lose when their GPUs lie apart.

Measured by those who published it: ``scheduler/simulation_throughputs.json``, ``v100_unconsolidated``, of
github.com/stanford-futuredata/gavel at c4fa4009 (Narayanan et al., OSDI 2020; MIT licence), to four digits; beside
:data:`simulator.traces.published_speeds.GAVEL_STEPS`, where the GPUs lie together.
"""

from __future__ import annotations

UNCONSOLIDATED = {
    "ResNet-18 (batch size 16)": (35.34, 40.59, 64.41),
    "ResNet-18 (batch size 32)": (32.66, 38.12, 63.2),
    "ResNet-18 (batch size 64)": (31.48, 38.31, 63.15),
    "ResNet-18 (batch size 128)": (24.51, 35.36, 61.14),
    "ResNet-18 (batch size 256)": (19.7, 30.23, 53.86),
    "ResNet-50 (batch size 16)": (10.04, 14.9, 25.17),
    "ResNet-50 (batch size 32)": (8.974, 12.85, 22.83),
    "ResNet-50 (batch size 64)": (6.866, 11.14, 19.76),
    "ResNet-50 (batch size 128)": (4.334, 7.506, 13.94),
    "Transformer (batch size 16)": (8.875, 11.63, 19.81),
    "Transformer (batch size 32)": (8.719, 11.96, 19.12),
    "Transformer (batch size 64)": (7.005, 10.57, 17.01),
    "Transformer (batch size 128)": (5.049, 7.784, 13.03),
    "Transformer (batch size 256)": (2.233, 3.664, 6.799),
    "LM (batch size 5)": (40.35, 44.9, 73.12),
    "LM (batch size 10)": (35.14, 37.82, 65.52),
    "LM (batch size 20)": (30.44, 33.4, 58.89),
    "LM (batch size 40)": (21.22, 29.17, 52.04),
    "LM (batch size 80)": (17.75, 26.65, 47.89),
}
"""Job type -> steps a second of all GPUs together, on 2, 4 and 8 GPUs, one in each machine."""

WEIGHTS = {"ResNet-18": 11.2e6, "ResNet-50": 25.6e6, "Transformer": 47e6, "LM": 14e6}
"""Beginning of job types -> weights, counted from the shapes in that repository: ResNet-18 for CIFAR-10, six layers of
width 512 with the vocabulary of Multi30k, two LSTM layers of width 200 with that of WikiText-2."""
