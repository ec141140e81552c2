"""What a placement costs: spread and slow nodes to step time, by several models of communication (ADR 9)."""
