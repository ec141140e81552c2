"""What the models of communication predict for production runs of the Arnold paper (docs: predictions.md)."""
