"""Programs that the service starts beside itself, and what passes between them."""
