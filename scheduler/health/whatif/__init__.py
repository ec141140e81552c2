"""What-if analysis of one job's trace: how much faster would it run without stragglers, and whose fault is the rest?

After "Understanding Stragglers in Large Model Training Using What-if Analysis" (arXiv 2505.05713, OSDI '25): the job's
operations become a graph, the graph is replayed with traced and with ideal durations, and the ratio of the two step
times is what stragglers cost.
"""
