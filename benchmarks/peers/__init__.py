"""How good and how fast the comparison of machines is: metric streams from a seed, faults put into them, figures."""
