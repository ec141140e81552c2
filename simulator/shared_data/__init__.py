"""Jobs that read the same data: how fast a cache lets them load, and how many loads they could share."""
