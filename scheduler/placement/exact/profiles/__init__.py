"""Width profiles: how many columns each domain serves, which columns these are, and rows that fit them.

``profile_search`` comes first, then in this order ``width_model``, ``skeleton``, ``realise``.
"""
