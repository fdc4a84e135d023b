"""Keeps built images, and vouches for them."""
