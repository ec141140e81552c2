"""Several jobs at once: placed together, and running ones moved to make room for a new one."""
