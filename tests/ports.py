"""Ports for the servers that tests start."""

from __future__ import annotations

import random
import socket

# Linux takes the ports of outgoing connections from 32768 on: a server that is stopped for a while would find its own
# taken.  Below 10000 are those of services that people know.
LOWEST, HIGHEST = 10_000, 32_767
TRIES = 100  # far more than ports that are in use on a machine of tests


def free_port() -> int:
    """Return a TCP port of the loopback address on which nothing listens, and which no connection takes by chance."""
    for _ in range(TRIES):
        # not the seed that tests set: two processes with one seed would draw the same port
        port = random.SystemRandom().randint(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port was found between {LOWEST} and {HIGHEST}")
