"""Programs that give a task to the agent of a desktop, sent there and run there."""
