"""Tests of the comparison of two stores."""
