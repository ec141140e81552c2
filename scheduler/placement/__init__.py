"""Placement algorithms: ours, the paper's, its baselines, and what users run today, behind one Protocol."""
