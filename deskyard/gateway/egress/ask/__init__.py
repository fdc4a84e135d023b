"""Connections that wait for a person: held here, shown as tickets, released or refused by an answer."""
