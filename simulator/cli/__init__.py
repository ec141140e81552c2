"""The simulator's commands; ``arnold`` finds them through the entry points ``arnold.commands``."""
