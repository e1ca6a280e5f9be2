"""Text environments: the contract (`base`), a checker for it (`checker`), and one package a task."""
