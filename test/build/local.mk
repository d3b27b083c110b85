# Other compilers, sanitizers, valgrind, the distribution and what it installs: each a script that builds what it needs.
build_tests = %D%/analyze.sh %D%/bench.sh %D%/budgets.sh %D%/clang.sh %D%/distribution.sh %D%/generated.sh %D%/linked.sh %D%/nvcc.sh %D%/openmpi.sh %D%/packaging.sh %D%/quickstart.sh %D%/valgrind.sh
tests += $(build_tests)
EXTRA_DIST += $(build_tests) %D%/leaks.supp %D%/common.sh %D%/installcheck.sh %D%/budgets.py %D%/budgets.tsv

# How a file is compiled here, for other compilers.
compile-flags:
	@echo '$(DEFS) $(DEFAULT_INCLUDES) $(renga_CPPFLAGS) $(if $(CUDA_DIR),-isystem $(CUDA_DIR)/include) $(CPPFLAGS) $(AM_CFLAGS)'
check-programs: $(check_PROGRAMS) $(check_SCRIPTS) $(check_DATA) test/yield.so
bench-programs: $(filter test/bench/%,$(EXTRA_PROGRAMS))

# The second build, under the address and undefined-behaviour sanitizers. The emulated CUDA has closed memory and stacks of
# its own, which the sanitizers take for faults.
sanitized/Makefile: $(top_srcdir)/configure
	@$(MKDIR_P) sanitized
	cd sanitized && $(abs_top_srcdir)/configure -q --enable-sanitizers --disable-shared --without-cuda CFLAGS='$(SANITIZED_CFLAGS)'
SANITIZED_CFLAGS = -O1 -g1
sanitized: sanitized/Makefile
	+$(MAKE) -s -C sanitized renga$(EXEEXT) check-programs
check-commit check-full: all
	+$(AM_V_at)$(MAKE) check-programs && $(MAKE) sanitized
	$(AM_V_at)$(run_tests) --sums
	$(AM_V_at)$(run_tests) --when $(@:check-%=%) --tree plain=. --tree sanitized=sanitized $(tests)
.PHONY: compile-flags check-programs bench-programs sanitized check-commit check-full
clean-local: clean-sanitized
clean-sanitized:
	rm -rf sanitized test/logs
.PHONY: clean-sanitized

installcheck-local:
	CC='$(RENGA_MPICC)' MPIEXEC='$(MPIEXEC)' MPIFC='$(MPIFC)' PKG_CONFIG='$(PKG_CONFIG)' $(SHELL) $(srcdir)/%D%/installcheck.sh \
	  '$(srcdir)' '$(DESTDIR)$(libdir)' '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)'
