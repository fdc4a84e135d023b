"""Tickets of gateways in Mission Control: followed, written down, and what a person signs to answer one."""
