"""Publishes built images to a cluster."""
