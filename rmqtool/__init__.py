"""A forensic toolkit for the store of an Apache RocketMQ broker."""

__version__ = "0.1.0"
