# Renga from other languages.
binding_tests = %D%/fortran.sh %D%/python.sh %D%/trainer.sh %D%/networks.sh
tests += $(binding_tests)
EXTRA_DIST += $(binding_tests) %D%/prototypes.py %D%/api.py %D%/trainer.py %D%/mpi.py %D%/calls.f90 %D%/calls.c %D%/modules.py %D%/optimizers.py %D%/together.py %D%/heals.py %D%/changes.py \
  %D%/networks/aside.py %D%/networks/common.py %D%/networks/libraries.py %D%/networks/small.py %D%/networks/train.py %D%/standin/mpi4py/__init__.py %D%/standin/mpi4py/MPI.py
