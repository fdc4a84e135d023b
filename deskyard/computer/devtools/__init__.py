"""A browser that programs drive by Chromium's DevTools protocol, through the gateway like all else of the desktop."""
