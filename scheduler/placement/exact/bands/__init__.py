"""Bands: the columns are cut into bands, in each of which a row lies in one domain.

``column_bands`` says what they are; ``tabu_bands`` builds whole rows and ``credit_bands`` ragged ones, both by the
swaps of ``slot_swaps``.
"""
