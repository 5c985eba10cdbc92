"""What follows from linear equations and inequalities over numbered variables."""
