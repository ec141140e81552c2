"""Files about jobs: what one asks for, what was measured of it, and where it was placed."""
