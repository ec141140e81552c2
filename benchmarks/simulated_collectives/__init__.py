"""The test bench: a job's collectives in discrete time, with faults, recorded as a tracer would record them."""

from benchmarks.simulated_collectives.run import simulate
from benchmarks.simulated_collectives.traced_job import FAULTS, BenchJob, Fault, FaultKind

__all__ = ["FAULTS", "BenchJob", "Fault", "FaultKind", "simulate"]
