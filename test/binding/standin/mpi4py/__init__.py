"""Stands in for mpi4py where there is none of Renga's MPI: as much of it as Renga and its test use, by ctypes.

Debian's mpi4py is built with Open MPI, and its package makes Open MPI the machine's mpicc and mpiexec.
"""
