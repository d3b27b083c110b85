# The library as others link it.
TESTS += %D%/exports.sh %D%/cxx.sh
EXTRA_DIST += %D%/exports.sh %D%/cxx.sh %D%/train.cpp
