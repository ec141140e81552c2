"""The order of the methods: from a job to its pairs, pair after pair, and from a built pair to nodes.

``search`` comes first.
"""
