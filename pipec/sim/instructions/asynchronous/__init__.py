"""Instructions that go on after their issue, and the mbarriers that tell of their end (PTX ISA 9.7.9.25, 9.7.13.15)."""
