"""Width profiles: how many columns each domain serves, which columns these are, and rows that fit them."""
