EXTRA_DIST += %D%/manpages.sh %D%/clusters.md %D%/design.md %D%/languages.md %D%/networks.md %D%/performance.md %D%/plans.md %D%/python.md %D%/planning-time.svg %D%/renga.svg \
  %D%/training.md %D%/training.svg %D%/curves.sh
dist_man_MANS += %D%/renga.1

# One man page for each public function, made from the comment above it.
man3_stamp = %D%/man3.stamp
$(man3_stamp): $(librenga_la_SOURCES) %D%/manpages.sh
	$(AM_V_GEN)$(MKDIR_P) %D%/man3 && cd $(srcdir) && \
	  $(SHELL) doc/manpages.sh $(abs_top_builddir)/%D%/man3 $(PACKAGE_VERSION) `echo '$(librenga_la_SOURCES)' | tr ' ' '\n' | grep '\.c$$'`
	@touch $@
all-local: $(man3_stamp)
install-data-hook: $(man3_stamp)
	$(MKDIR_P) $(DESTDIR)$(mandir)/man3
	for page in %D%/man3/*.3; do $(INSTALL_DATA) $$page $(DESTDIR)$(mandir)/man3/ || exit 1; done
uninstall-hook:
	for page in %D%/man3/*.3; do rm -f $(DESTDIR)$(mandir)/man3/`basename $$page`; done
clean-local:
	rm -rf %D%/man3 $(man3_stamp)
