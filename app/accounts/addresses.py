"""Callers without a key."""

from __future__ import annotations

import ipaddress

_IPV6_NETWORK_BITS = 64


def subscriber_of(host: str) -> str:
    """Identifies the subscriber of an address: for IPv6 by its network, as a subscriber has all addresses of one.

    Args:
        host: The address, or another name of the client.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK_BITS), strict=False))
