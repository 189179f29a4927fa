"""The service on Ray Serve: an ingress that speaks HTTP, and engine replicas that run the models (docs/ray.md)."""
