"""Maintains the cores of views over sources that change on their own."""
