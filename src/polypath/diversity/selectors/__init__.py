"""Subset selection: ordered picks, each with what it gained. Any beginning of a selection is a smaller selection."""
