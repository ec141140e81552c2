"""Goals besides the pair: soft terms and closer levels, with their bounds, one goal after another.

``goal_search`` comes first; starts are of ``soft_terms``, ``tight_fills`` and ``quick_starts``, bounds of
``level_bounds``.
"""
