"""Clients of a group at one site: named applications that send and get messages in its order."""
