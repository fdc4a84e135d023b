"""The process `link`: asks gateways all day, with a key that may only ask; and what opens the way there."""
