"""Templates: machines that were booted once and saved with their memory, and new machines that go on from them."""
