"""The node's HTTP: NGSI-LD under /ngsi-ld/v1, Hanse's own API under /hanse/v1. One module a noun."""
