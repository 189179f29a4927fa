"""HTTP in, HTTP out: routes, schemas, errors as problems, limits, the OpenAPI document, middleware and static files."""
