"""What Mission Control watches by itself: time that machines ran and its cost, alerts, and the webhooks that tell them."""
