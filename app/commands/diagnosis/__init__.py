"""The checks of ``verso doctor``: the machine, the decoder, and what the service is configured to serve."""
