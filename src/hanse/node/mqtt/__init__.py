"""Devices by MQTT: a connection, how topics map to attributes, a small broker inside the node, and the bridge between them."""

from hanse.node.mqtt.bridge import MqttDevices

__all__ = ["MqttDevices"]
