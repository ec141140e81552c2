"""What every room stands on and what knows no domain: errors, quantities, files, plug-ins, records, formats, tables.

Importing any of it is cheap; libraries that take their time are imported where they are first needed.
"""

DISTRIBUTION = "arnold-scheduler"
