"""Answers of commands as JSON: one document a command, as pydantic models that ``arnold schema`` describes."""
