"""MAROONED for trainers and people from elsewhere: PettingZoo, OpenEnv, and a terminal."""
