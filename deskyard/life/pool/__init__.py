"""Disposable desktops: made at seats, ahead or when they are wanted, given to somebody once, and gone when released."""
