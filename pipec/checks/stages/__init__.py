"""Stages of pipelines: each is obtained, signalled and released as its form requires, by the threads required."""
