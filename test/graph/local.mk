check_PROGRAMS += %D%/build %D%/gradient
%C%_build_SOURCES = %D%/build.c
%C%_gradient_SOURCES = %D%/gradient.c %D%/execute.c
TESTS += %D%/build %D%/gradient
noinst_HEADERS += %D%/execute.h
