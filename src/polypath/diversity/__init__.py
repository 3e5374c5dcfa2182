"""What makes things different: features, partitions, measures and marginal contributions."""
