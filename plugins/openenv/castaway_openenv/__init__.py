"""Any OpenEnv server as a task for Castaway."""
