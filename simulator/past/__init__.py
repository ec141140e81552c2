"""What happened in a run: a diary kept while it goes on, its history when it is over, and that history over time."""
