"""Remembers which librenga the package is installed for: that of pkg-config, or RENGA_LIBRARY."""
import os
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py


def find_library():
    if os.environ.get("RENGA_LIBRARY"):
        return os.path.abspath(os.environ["RENGA_LIBRARY"])
    try:
        folder = subprocess.run(["pkg-config", "--variable=libdir", "renga"], check=True,
                                capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("pkg-config does not find renga: install Renga (make install) and name its folder "
                 "in PKG_CONFIG_PATH, or name librenga.so in RENGA_LIBRARY")
    library = os.path.join(folder, "librenga.so")
    if not os.path.exists(library):
        sys.exit(f"{library} is not there: the Python package needs Renga's shared library")
    return library


class Build(build_py):
    def run(self):
        library = find_library()
        super().run()
        with open(os.path.join(self.build_lib, "renga", "_installed.py"), "w") as file:
            file.write(f'"""Written when the package was installed."""\nLIBRARY = {library!r}\n')


setup(cmdclass={"build_py": Build})
