"""What people look at and play with; no stage computes with it."""
