"""Reinforcement learning: sampling, rollouts, advantages, losses, PPO. It knows environments by their contract only."""
