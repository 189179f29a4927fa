"""The statuses of errors in protocols that know fewer of them than the native routes."""

STATUSES = {406: 400, 415: 400, 422: 400, 429: 504, 503: 504, 507: 504}
"""There is one status for bad requests, and one for what may succeed later. After 429 or 503, Weblate sends nothing
for half an hour."""
