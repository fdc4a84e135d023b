"""What opens a desktop or its keys to somebody: what is signed for it, and the seal of a link that is given out."""
