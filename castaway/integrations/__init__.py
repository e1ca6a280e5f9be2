"""MAROONED for other people's trainers: OpenEnv and PettingZoo."""
