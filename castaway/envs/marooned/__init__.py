"""MAROONED: five shipwrecked sailors rebuild their ship, and one of them must not let them."""
