EXTRA_DIST += %D%/leaks.supp %D%/common.sh %D%/clang.sh %D%/analyze.sh %D%/sanitizers.sh %D%/valgrind.sh %D%/installcheck.sh \
  %D%/distribution.sh

# Other compilers, sanitizers, valgrind, the distribution and what it installs: each a script that builds what it needs.
build_checks = clang analyze distribution valgrind sanitizers
check-builds:
	@$(MKDIR_P) %D%
	@for name in $(build_checks); do began=$$(date +%s); \
	  top_builddir='$(abs_top_builddir)' $(SHELL) $(srcdir)/%D%/$$name.sh >%D%/$$name.log 2>&1; code=$$?; \
	  case $$code in 0) result=PASS;; 77) result=SKIP;; *) result=FAIL;; esac; \
	  echo ":global-test-result: $$result" >%D%/$$name.trs; \
	  took=$$(($$(date +%s) - began)); echo "took $$took s" >>%D%/$$name.log; echo "$$result: %D%/$$name.sh ($$took s)"; done
# How a file is compiled here, for analyze.sh.
analyze-command:
	@echo '$(CC) $(DEFS) $(DEFAULT_INCLUDES) $(renga_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS)'
.PHONY: check-builds analyze-command

installcheck-local:
	CC='$(CC)' MPIEXEC='$(MPIEXEC)' MPIFC='$(MPIFC)' PKG_CONFIG='$(PKG_CONFIG)' $(SHELL) $(srcdir)/%D%/installcheck.sh \
	  '$(srcdir)' '$(DESTDIR)$(libdir)' '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)'
