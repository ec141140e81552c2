"""Bandwidth tests of pairs of nodes: which to run, a few rounds in parallel, and which node or link they convict."""
