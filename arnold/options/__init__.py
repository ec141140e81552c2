"""Options: each declared once, from the field of the record that a command gets, and the files that they name.

``field_options`` comes first; ``command`` is what all commands are made of.
"""
