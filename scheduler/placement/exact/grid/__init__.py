"""What the search works on: a grid of cells, domains that hold so many of them, and the limits of its methods."""
