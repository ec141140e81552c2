"""Evidence of slow and faulty machines, against faults that are known: who is named, and who else.

``python -m benchmarks evidence`` prints the tables that ``EVIDENCE`` of :mod:`benchmarks.__main__` names.  A table is a
module with a function ``table`` that returns it as Markdown; :mod:`benchmarks.evidence.naming` counts who is named.
"""
