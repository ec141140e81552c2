"""Components of columns: what decides S = 2, where columns are loops and edges of a graph on the domains."""
