"""The process of one community: store, HTTP, MQTT, notifications."""
