"""Estimators and honest comparisons with intervals."""
