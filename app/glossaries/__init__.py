"""Stored glossaries: their store, and the selection of the terms that occur in a text."""
