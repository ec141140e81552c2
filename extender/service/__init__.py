"""The process: HTTP application, TLS, logs, and what ties all rooms together."""
