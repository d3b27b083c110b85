# Others' problems of cutting a network into stages, solved exactly, against brute force and against what their planners found for
# published graphs. They are in no library: each is an anchor for what the search finds in its own problem.
solvers_tests = %D%/brute %D%/bruteshard %D%/brutespread %D%/dnnpartitioning %D%/piper %D%/pipedream
check_PROGRAMS += $(solvers_tests)
tests += $(solvers_tests)
test/solvers/%.o: CFLAGS = -g -O2
check_LIBRARIES = %D%/libsolvers.a
%C%_libsolvers_a_SOURCES = %D%/exact.c %D%/instance.c %D%/reduce.c %D%/lattice.c %D%/probe.c %D%/grow.c %D%/critical.c %D%/linear.c \
  %D%/chain.c %D%/colour.c %D%/alone.c %D%/shard.c %D%/choice.c %D%/levels.c %D%/spread.c %D%/pack.c %D%/graphs.c %D%/profiles.c \
  %D%/cuts.h %D%/cutstest.h %D%/exactimpl.h %D%/graphs.h %D%/probe.h %D%/shard.h
%C%_libsolvers_a_AR = $(AR) cr
SOLVERS_LDADD = %D%/libsolvers.a $(LDADD) $(JSON_C_LIBS)
%C%_brute_LDADD = $(SOLVERS_LDADD)
%C%_bruteshard_LDADD = $(SOLVERS_LDADD)
%C%_brutespread_LDADD = $(SOLVERS_LDADD)
%C%_dnnpartitioning_LDADD = $(SOLVERS_LDADD)
%C%_piper_LDADD = $(SOLVERS_LDADD)
%C%_pipedream_LDADD = $(SOLVERS_LDADD)
