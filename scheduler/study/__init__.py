"""Placement studies: the paper's table, fragmented clusters.

A study is a list of cases and a list of algorithms; :mod:`scheduler.study.placement_sweep` runs each algorithm on
each case, in this process or in several, and the study's own module says what the results mean.  Same seed, same rows,
whatever the number of processes; only times differ.
"""
