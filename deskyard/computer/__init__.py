"""The computer-use service: it lives in a desktop, and is the eyes and hands of any agent there."""
