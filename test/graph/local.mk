check_PROGRAMS += %D%/build %D%/gradient %D%/stage
%C%_build_SOURCES = %D%/build.c
%C%_gradient_SOURCES = %D%/gradient.c %D%/execute.c
%C%_stage_SOURCES = %D%/stage.c %D%/execute.c
TESTS += %D%/build %D%/gradient %D%/stage
noinst_HEADERS += %D%/execute.h
