"""The widgets that programs show to assistive technology, read and used by name instead of by pixel."""
