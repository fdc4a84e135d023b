"""Tickets of gateways in Mission Control: followed and written down, their calls, what a person signs to answer one."""
