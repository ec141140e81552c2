"""What proves an answer, as a document: its fields, and how it is written; :mod:`scheduler.verification` checks it."""
