"""What operators ask of a state root: how far, how large, what differs, and what is wrong.

A module for each command, and beside it what it is made of.
"""
