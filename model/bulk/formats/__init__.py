"""Formats of files for bulk translation: one module each, and the table that lists them."""
