"""URL <-> schema <-> service: one module for each route, none of them with a rule of its own."""
