"""Devices by MQTT: a connection, how topics map to attributes, a small broker inside the node, and the bridge between them."""
