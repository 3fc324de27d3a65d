"""A forensic toolkit for the store of an Apache RocketMQ broker."""

__version__ = "0.1.0"
__release_date__ = "2026-11-21"  # what the manual pages bear: never the clock
