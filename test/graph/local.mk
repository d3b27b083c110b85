check_PROGRAMS += %D%/build %D%/formulas %D%/gradient %D%/stage %D%/setup
%C%_build_SOURCES = %D%/build.c
%C%_formulas_SOURCES = %D%/formulas.c
%C%_gradient_SOURCES = %D%/gradient.c %D%/execute.c
%C%_stage_SOURCES = %D%/stage.c %D%/execute.c
%C%_setup_SOURCES = %D%/setup.c %D%/execute.c
TESTS += %D%/build %D%/formulas %D%/gradient %D%/stage %D%/setup
noinst_HEADERS += %D%/execute.h
