"""vLLM as a process of its own: what it is told, started, waited for and stopped."""
