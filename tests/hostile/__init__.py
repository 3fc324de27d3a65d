"""Stores from strangers: nothing outside of one is changed or shown, and nothing is waited for."""
