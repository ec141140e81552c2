"""The test bench: a job's collectives in discrete time, with faults, recorded as a tracer would record them."""

from health.collectives.bench.faults import FAULTS, Fault, FaultKind
from health.collectives.bench.job import BenchJob
from health.collectives.bench.run import simulate

__all__ = ["FAULTS", "BenchJob", "Fault", "FaultKind", "simulate"]
