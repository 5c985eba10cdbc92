"""Stages of pipelines: each is obtained, signalled and released as its form asks, by the threads that it takes."""
