"""LLM workloads made from a seed, fitted to what is published of a real cluster."""

from simulator.workload.generate import generate
from simulator.workload.published import KALOS, Published
from simulator.workload.spec import WorkloadSpec
from simulator.workload.trace_figures import summary

__all__ = ["KALOS", "Published", "WorkloadSpec", "generate", "summary"]
