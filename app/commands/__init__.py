"""The ``verso`` command line: commands of the service here, and those of :mod:`model.commands`."""
