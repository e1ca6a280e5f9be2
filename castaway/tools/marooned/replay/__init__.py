"""Makes an HTML page that replays a saved episode of MAROONED."""
