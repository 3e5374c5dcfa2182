"""Policies that sample and score tokens, behind one protocol."""
