"""Protocols of other translation services, so that their clients need no change but the address."""
