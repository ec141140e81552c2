"""The command ``arnold``."""
