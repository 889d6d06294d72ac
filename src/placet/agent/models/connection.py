"""What every request to a vendor's server needs of the HTTP client that the packages bring."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def tls() -> ssl.SSLContext:
    """Give the one TLS context: reading the certificates takes some 30 ms, too much for each."""
    import httpx2

    return httpx2.create_ssl_context()
