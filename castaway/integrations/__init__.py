"""Adapters that offer MAROONED to other training libraries: OpenEnv and PettingZoo."""
