"""What `params.yaml` may hold, and how a mistake in it is told."""
