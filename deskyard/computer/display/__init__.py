"""The display half of the computer-use service: it sees the screen, acts on it, and tells what happens there."""
