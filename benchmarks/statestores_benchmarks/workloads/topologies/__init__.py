"""Topologies beside what does the same without one."""
