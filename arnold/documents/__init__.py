"""Answers of commands as JSON: one document a command, which ``arnold schema`` describes."""
