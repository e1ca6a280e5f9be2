"""The games of TextArena as a task for Castaway."""
