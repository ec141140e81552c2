"""The Arnold paper's own mixed-integer program, as published and with cuts."""
