# How tests are built and run. Their programs are compiled for soon, not for speed; the library's objects are linked as they are.
test/%.o tutorials/%.o examples/%.o: CFLAGS = $(TEST_CFLAGS)
test/bench/%.o: CFLAGS = -g -O2
TEST_CFLAGS = -g1 -O0
test/%: AM_LDFLAGS += $(TEST_LDFLAGS)
inside_objects = $(patsubst %.lo,%.o,$(librenga_la_OBJECTS) \
  $(foreach part,$(subst /,_,$(noinst_LTLIBRARIES:.la=)),$($(part)_la_OBJECTS)))

tests += %D%/runner.sh
EXTRA_DIST += %D%/runner.sh %D%/run.py %D%/budget.tsv %D%/yield.c %D%/structs.py %D%/structs.tsv
CLEANFILES += %D%/yield.so
%D%/yield.so: %D%/yield.c
	$(AM_V_CCLD)$(MKDIR_P) %D% && $(CC) $(WARN_CFLAGS) -std=c11 -D_GNU_SOURCE -O1 -shared -fPIC -o $@ $(srcdir)/%D%/yield.c -ldl

# make check TESTS='test/op/table test/app/plan.sh' runs these; SLOT says whose turn it is of those tests that take turns.
SLOT = 0
run_tests = $(test_environment) $(PYTHON3) $(srcdir)/%D%/run.py --slot $(SLOT) $(RUNFLAGS)
check-local: %D%/yield.so $(check_DATA)
	@test -n '$(PYTHON3)' || { echo "the tests need python3"; exit 1; }
	$(if $(TESTS)$(tests),$(AM_V_at)$(run_tests) $(if $(TESTS),$(TESTS),--when check $(tests)))
