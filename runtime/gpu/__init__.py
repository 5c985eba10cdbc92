"""Launches through the CUDA driver."""
