"""Stored glossaries: their terms, where they are kept, and which of them a text holds."""
