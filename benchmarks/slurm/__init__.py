"""A real Slurm: what it chooses, and what Arnold does on it."""
