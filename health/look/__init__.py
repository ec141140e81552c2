"""A folder with whatever is there after a crash: what each file is, who is suspected, and what to collect next."""
