"""Pairs of spreads (S, R): what is known of each, and what counting alone decides.

``lattice`` comes first, then ``pair_search``, the state that all methods share.  ``bounds`` and ``pattern_bound``
refute, ``cut_outs`` and ``row_chains`` build, ``closed_forms`` and ``row_groups`` decide.
"""
