"""Nodes and pods as a cluster: what is free, promised, flagged, faulty, and which nodes a gang's pods may use."""
