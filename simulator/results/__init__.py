"""What came of a run: a log of its attempts, its history as columns, series over time, a summary in a few numbers."""
