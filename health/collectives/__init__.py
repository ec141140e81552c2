"""Collectives, after Mycroft (arXiv 2509.03018): which rank makes a job's collectives stand still or slow.

Readers of public traces and of our own three-counter progress lines; a trigger that watches a few ranks; stalled groups
and their waiting for one another; the counters of the flows of the group that everything waits for.
"""
