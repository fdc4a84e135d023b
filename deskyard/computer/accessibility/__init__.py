"""What programs say of themselves to assistive technology: their widgets, read and used by name instead of by pixel."""
