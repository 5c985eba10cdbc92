"""Messages about stages: who obtains, signals and releases them, and whether the orders of the roles fit together."""
