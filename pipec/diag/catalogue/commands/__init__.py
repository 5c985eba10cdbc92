"""Messages of the commands and of what they start: running, assembling, verifying, predicting."""
