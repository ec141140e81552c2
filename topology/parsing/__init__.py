"""YAML and JSON from untrusted hands, as plain data with line numbers."""
