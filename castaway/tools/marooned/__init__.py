"""Tools for MAROONED: replays, a game in the terminal, balance tables, and the table of rules."""
