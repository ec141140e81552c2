"""Several jobs at once: placed together, one near running ones, and running ones moved to make room for a new one."""
