"""Names by which Kubernetes knows GPUs, apart from the readers: asking for the help of a command needs no more."""

from __future__ import annotations

GPUS = ("nvidia.com/gpu", "amd.com/gpu")
"""Extended resources of nodes and containers that count as GPUs."""

GPU_CLASSES = ("gpu.nvidia.com", "gpu.amd.com")
"""DeviceClasses of whole GPUs, and the drivers behind them."""
