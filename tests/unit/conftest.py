"""What holds for every test: none is judged by its time, this machine may be busy."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
