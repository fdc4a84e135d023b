"""What images are made from, worked out."""
