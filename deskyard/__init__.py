"""Deskyard: golden images and isolated, persistent Linux desktops for AI agents."""
