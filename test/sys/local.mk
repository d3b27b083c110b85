check_PROGRAMS += %D%/random %D%/memory %D%/options %D%/world %D%/viewer %D%/path %D%/host %D%/program %D%/stuck %D%/locale %D%/again %D%/handles %D%/split
%C%_random_SOURCES = %D%/random.c
%C%_memory_SOURCES = %D%/memory.c
%C%_options_SOURCES = %D%/options.c
%C%_world_SOURCES = %D%/world.c
%C%_viewer_SOURCES = %D%/viewer.c
%C%_path_SOURCES = %D%/path.c
%C%_host_SOURCES = %D%/host.c
%C%_program_SOURCES = %D%/program.c
%C%_stuck_SOURCES = %D%/stuck.c
%C%_locale_SOURCES = %D%/locale.c
%C%_again_SOURCES = %D%/again.c
%C%_handles_SOURCES = %D%/handles.c
%C%_split_SOURCES = %D%/split.c
tests += %D%/random %D%/memory %D%/options %D%/world %D%/viewer %D%/path %D%/host %D%/program.sh %D%/stuck.sh %D%/locale.sh %D%/again %D%/handles %D%/split.sh \
  test/circles.sh test/layers.sh test/numbers.sh test/style.sh
EXTRA_DIST += %D%/program.sh %D%/stuck.sh %D%/split.sh %D%/locale.sh test/circles.sh test/layers.sh test/numbers.sh test/style.sh
noinst_HEADERS += test/check.h
# Preloaded by scripts in which ranks wait in vain.
test/flying.so: test/flying.c
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)$(CC) -std=c11 -D_GNU_SOURCE $(CPPFLAGS) $(WARN_CFLAGS) -O1 -shared -fPIC -o $@ $(srcdir)/test/flying.c $(LIBS) -lpthread
# Preloaded on one of two nodes.
test/oddnode.so: test/oddnode.c
	@$(MKDIR_P) $(@D)
	$(AM_V_CCLD)$(CC) -std=c11 -D_GNU_SOURCE $(CPPFLAGS) $(WARN_CFLAGS) -O1 -shared -fPIC -o $@ $(srcdir)/test/oddnode.c $(LIBS) -ldl
check_DATA = test/flying.so test/oddnode.so
CLEANFILES += test/flying.so test/oddnode.so
EXTRA_DIST += test/oddnode.c
