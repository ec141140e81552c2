"""Bands: the columns are cut into bands, in each of which a row lies in one domain."""
