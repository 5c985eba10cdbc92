"""The version of pipec, in one place: the build and `pipec --version` read it from here."""

VERSION = "0.1.0"
