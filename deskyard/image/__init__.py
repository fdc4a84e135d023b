"""Golden images: built, checked, kept and published."""
