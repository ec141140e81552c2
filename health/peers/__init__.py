"""Machines of a job compared with each other, after Minder (arXiv 2411.01791, NSDI '25).

Healthy machines of a job look alike.  A machine whose metrics stay far from those of its peers, for minutes, is at
fault; the same holds for the times of training steps.  Their page, peers.md, says what each step does, what it is
worth, and when not to believe it.
"""
