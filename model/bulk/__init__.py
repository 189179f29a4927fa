"""Bulk translation: files in, files with translations out, by workers on one machine or a cluster (Ray Data).

``files`` plans which file becomes which, ``records`` knows which are finished, ``formats`` reads and writes them,
``worker`` translates rows, ``pipeline`` runs workers with Ray, and ``run`` puts them together. Only ``pipeline``
imports Ray.
"""
