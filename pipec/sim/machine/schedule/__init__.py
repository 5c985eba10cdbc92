"""Who runs when: the scheduler, asynchronous events, and the report of a deadlock."""
