"""Verifiable tasks behind one protocol."""
