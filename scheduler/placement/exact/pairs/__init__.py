"""Pairs of spreads (S, R): what is known of each, and what counting alone decides."""
