"""Asynchronous instructions, and the mbarriers that signal their completion (PTX ISA 9.7.9.25, 9.7.13.15)."""
