"""Keys and persons that an admin gives by the web: what is signed for them, and how the worker writes them."""
