"""The worker: claims operations, runs each in a child, and keeps what it hears; the observer: what is there."""
