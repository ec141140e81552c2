"""What jobs draw over time: waves of steps, starts, stops and checkpoints, and what their sum does to power domains."""
