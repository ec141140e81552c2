"""What users run today, re-implemented from the rules of the published sources: Kueue, Volcano, KAI, Slurm, Kubernetes.

Each module names the version it follows, the rule, and what it leaves out.  All place greedily, none takes parallelism
as input, none proves anything.  They list nodes; ranks take them one after another, so the order in which a job numbers
its cells matters as much as the nodes: it is a parameter of each.

What all leave out: quotas, priorities, preemption, other resources than whole nodes, and taints (a faulty node is not
there; a slow one is a node like any other).  Where a tree has uneven depth, nodes that hang on a broader switch are a
domain of their own at the closer level; real systems want a label there and overlook nodes without one.
"""
