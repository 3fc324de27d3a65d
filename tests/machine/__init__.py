"""Tests of compiled kernels: what they are made from, where they are kept, how they are run."""
