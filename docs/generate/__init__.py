"""Pages of the reference that are made from the program: commands, schemas, formats; ``make reference``."""
