"""Tools for people: chat, transcripts, replays, and a checker of tasks. No stage of the pipeline uses them."""
