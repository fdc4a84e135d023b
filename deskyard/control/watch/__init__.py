"""What Mission Control watches by itself: time and its cost, alerts, and the webhooks that tell them."""
