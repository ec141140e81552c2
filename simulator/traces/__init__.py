"""Public job traces in their own formats, read as JobRecords."""
