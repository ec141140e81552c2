"""The process: HTTP application, TLS, metrics, logs, and what ties all rooms together."""
