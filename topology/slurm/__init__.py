"""What Slurm says of its nodes, in a file or live; :mod:`topology.readers.slurm` reads its topology."""
