"""Catalogues of programs: files of messages with a key, a source, a target and a state.

Each format reads its messages with their positions (:class:`~app.documents.formats.catalogues.catalogue.Message`), and
a translation replaces exactly the characters of its value, so that all others stay as they are.
"""
