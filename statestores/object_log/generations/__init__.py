"""The logs of a store that a reshard has ended, and those that it has begun.

A store has one log that counts, at any moment: the first one, or the one that the *end* of the log
before names (`ending`). Nothing of a log that has ended is ever written again, but its end stays,
for whoever comes late (`retiring`).
"""
