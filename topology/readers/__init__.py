"""Readers of topology formats, found through entry points and imported only when a file is of their format."""
