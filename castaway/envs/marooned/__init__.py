"""MAROONED: five shipwrecked sailors rebuild their ship; one of them is a traitor who must prevent it."""
