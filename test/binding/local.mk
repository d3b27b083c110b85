# Renga from other languages.
binding_tests = %D%/fortran.sh %D%/python.sh
TESTS += $(binding_tests)
EXTRA_DIST += $(binding_tests) %D%/prototypes.py %D%/api.py %D%/mpi.py %D%/calls.f90 %D%/modules.py
