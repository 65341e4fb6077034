"""The suites that an engine is evaluated with. Each returns evidence with the problems that it found, none if good."""
