"""Slurm as its files and its programs say it: topology.conf, topology.yaml, listings of nodes.

Both files are read as trees of ``switches``; a listing has none.
"""
