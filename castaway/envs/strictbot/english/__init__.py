"""The full rendering: plain English, as people and instruct models read and write it."""
