"""Hanse: a federation of IoT communities that trade context data on their own terms."""

from __future__ import annotations

from hanse.client import NgsiLdClientError, connect, connect_sync

__all__ = ["NgsiLdClientError", "connect", "connect_sync"]
