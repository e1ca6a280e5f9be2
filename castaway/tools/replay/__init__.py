"""A saved episode of any task as a page that is stepped through, moment by moment, without a script."""
