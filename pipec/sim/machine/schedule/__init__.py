"""Scheduling: the scheduler, asynchronous events, and the deadlock report."""
