"""The JSON of the simulator's commands."""
