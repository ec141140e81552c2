"""Components of columns: what decides S = 2, where columns are loops and edges of a graph on the domains.

``component_search`` comes first: it lists components (``column_components``), packs them, and bounds the rows of each.
"""
