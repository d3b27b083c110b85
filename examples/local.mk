# Real uses, each a program that one may start from; run.sh runs them as tests.
examples = %D%/surrogate %D%/sweep %D%/finetune
check_PROGRAMS += $(examples)
tests += %D%/run.sh
%C%_surrogate_SOURCES = %D%/surrogate.c
%C%_surrogate_LDADD = $(OUTSIDE_LDADD)
%C%_sweep_SOURCES = %D%/sweep.c
%C%_sweep_LDADD = $(OUTSIDE_LDADD)
%C%_finetune_SOURCES = %D%/finetune.c
%C%_finetune_LDADD = $(OUTSIDE_LDADD)
EXTRA_DIST += %D%/run.sh %D%/README.md %D%/train.py %D%/pretrained.py %D%/heat.f90
