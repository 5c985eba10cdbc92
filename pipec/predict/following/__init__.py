"""One block followed event by event: its roles, what they hand to each other, and the engines that they share."""
