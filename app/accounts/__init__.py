"""Callers of the service: their keys, what they may use, and what they have used (docs/decisions/0026)."""
