"""Answers of capacity planning as a page or a picture."""
