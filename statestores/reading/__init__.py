"""A store found and read from outside, through whichever door is open: files, snapshot or engine.

Read `locations` first: what lies at a path. Then `views`: the content of one partition.
"""
