"""Several jobs on one cluster as numbers: classes of nodes that are alike, and programs that share them out."""
