"""A desktop of Deskyard for agents that speak the Model Context Protocol: `deskyard-mcp` serves one desktop."""
