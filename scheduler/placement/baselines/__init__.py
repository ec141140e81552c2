"""The baselines of the Arnold paper (arXiv 2509.15940, section 7.1): best-fit, random-fit, gpu-packing, topo-aware.

The paper names them in a sentence each and publishes no code.  Each fills PP groups row by row, the unit of the paper's
own formulation; docs/algorithms.md says which of its published ratios follow from that.
"""
