check_PROGRAMS += %D%/build
%C%_build_SOURCES = %D%/build.c
TESTS += %D%/build
