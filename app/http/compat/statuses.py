"""The statuses of errors in protocols that use fewer of them than the native routes."""

STATUSES = {406: 400, 415: 400, 422: 400, 429: 504, 503: 504, 507: 504}
"""400 is for bad requests, and 504 for requests that may succeed later: after 429 or 503, Weblate would send nothing
for half an hour."""
