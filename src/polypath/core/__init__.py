"""Registry, recipes, errors, seeds, the rollout record and run directories. Imports no torch."""
