"""LLM workloads made from a seed, fitted to what is published of a real cluster."""

from simulator.workload.generate import WorkloadSpec, generate
from simulator.workload.job_kinds import KALOS, Published, summary

__all__ = ["KALOS", "Published", "WorkloadSpec", "generate", "summary"]
