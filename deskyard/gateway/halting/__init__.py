"""Agents that people have stopped: who has, and until when."""
