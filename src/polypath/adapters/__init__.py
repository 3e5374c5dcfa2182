"""Thin wrappers for other training frameworks."""
