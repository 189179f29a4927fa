"""The native routes, one module each: they translate between the schemas and the service."""
