"""NGSI-LD meaning (ETSI GS CIM 009), pure: JSON-LD contexts, entities, representations, queries, time. No I/O in here."""
