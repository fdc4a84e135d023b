"""The processes of Mission Control: which there are, what starts and restarts them, and how they are brought up."""
