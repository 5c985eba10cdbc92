"""Runs that look for sizes, or numbers in memory, at which processes wait for ever."""
