"""The commands of ``python -m model``, one file each: ``add_arguments`` describes one, ``run`` does it."""
