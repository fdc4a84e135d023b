"""The watch that Mission Control keeps by itself: time and its cost, alerts, and the webhooks that tell them."""
