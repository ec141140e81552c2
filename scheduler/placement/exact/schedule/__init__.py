"""The order of the methods: from a job to its pairs, pair after pair, and from a built pair to nodes.

``search`` comes first; ``pair_seats`` is of jobs, ``bare_grids`` of grids alone.
"""
