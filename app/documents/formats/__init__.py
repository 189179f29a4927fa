"""File formats: each reads a file into units of text, and writes it again with the units' translations.

A format is a class of its own module, derived from :class:`app.documents.formats.document_file.DocumentFile`, and a
row of the table in :mod:`app.documents.formats.table`. Modules, and the libraries they need, are imported when a
document of their format comes.
"""
