"""Readers of trace formats, one for each, and what several of them share."""
