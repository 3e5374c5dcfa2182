"""Environments: text games, simulators and simulated users behind one protocol, each played in turns."""
