"""Reinforcement learning: advantages, losses, curriculum, PPO. It knows environments by their contract only."""
