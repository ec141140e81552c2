"""What a placement costs: spread and slow nodes to step time, by several models of communication (ADR 9).

Every model answers through one Protocol (``types``); docs/simulation-cost.md has their formulas, their assumptions and
what they predict beside what was measured.  Nothing here knows of time, queues or the engine.
"""
