"""What was said with agents, to be kept elsewhere: a conversation, or all of a workspace."""
