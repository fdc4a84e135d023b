"""Questions that agents ask by themselves: as courtesy, answered once by whoever may talk to the agent."""
