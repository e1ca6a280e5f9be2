"""MAROONED for people: replays, a game in the terminal, balance tables, the rule book."""
