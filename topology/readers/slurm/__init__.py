"""Slurm as its files and its programs say it: topology.conf, topology.yaml, listings of nodes."""
