"""Answers as text for a person: what commands print of a document where it is not JSON."""
