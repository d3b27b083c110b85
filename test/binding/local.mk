# Renga from other languages.
binding_tests = %D%/python.sh
TESTS += $(binding_tests)
EXTRA_DIST += $(binding_tests) %D%/prototypes.py %D%/api.py %D%/mpi.py %D%/modules.py
