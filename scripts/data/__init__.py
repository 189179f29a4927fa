"""Builds the folder of the corpora (DATA) from public sources: ``python -m scripts.data``.

``sources.yaml`` has every archive with its pin and every set with its licence; :mod:`scripts.data.table` reads it.
:mod:`~scripts.data.fetch` brings the archives, the extractors (:mod:`~scripts.data.catalogues`,
:mod:`~scripts.data.documents`, :mod:`~scripts.data.corpora`) take the pairs out of their files,
:mod:`~scripts.data.cleaning` chooses among them, and :mod:`~scripts.data.build` runs the steps in order.
"""
