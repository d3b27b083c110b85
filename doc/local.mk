EXTRA_DIST += %D%/manpages.sh %D%/typepages.sh %D%/examples.sh %D%/index.md %D%/first-hour.md %D%/concepts.md %D%/costs.md %D%/glossary.md %D%/generation.md %D%/huggingface.md %D%/data.md %D%/precision.md %D%/errors.md %D%/formats.md %D%/linking.md %D%/tutorials.md \
  %D%/clusters.md %D%/slurm.md %D%/mdx.md %D%/design.md %D%/languages.md %D%/object-comm.md %D%/object-graph.md %D%/object-partition.md %D%/object-pipeline.md %D%/object-plan.md %D%/object-trainer.md %D%/limits.md %D%/networks.md %D%/performance.md %D%/plans.md %D%/python.md %D%/planning-time.svg %D%/renga.svg \
  %D%/training.md %D%/watching.md %D%/watching.png %D%/training.svg %D%/curves.sh \
  %D%/owners.svg %D%/hiding.svg %D%/divided.svg %D%/validations.sh
dist_man_MANS += %D%/renga.1

# One man page for each public function, made from the comment above it, with a statement of a program that calls it; and one for
# each public type and macro, made from the comment in its header.
man3_stamp = %D%/man3.stamp
$(man3_stamp): $(librenga_la_SOURCES) $(include_HEADERS) %D%/manpages.sh %D%/typepages.sh %D%/examples.sh
	$(AM_V_GEN)rm -rf %D%/man3 && $(MKDIR_P) %D%/man3 && cd $(srcdir) && \
	  $(SHELL) doc/manpages.sh $(abs_top_builddir)/%D%/man3 $(PACKAGE_VERSION) `echo '$(librenga_la_SOURCES)' | tr ' ' '\n' | grep '\.c$$'` && \
	  $(SHELL) doc/examples.sh $(abs_top_builddir)/%D%/man3 && \
	  $(SHELL) doc/typepages.sh $(abs_top_builddir)/%D%/man3 $(PACKAGE_VERSION) include/renga*.h
	@touch $@
all-local: $(man3_stamp)
install-data-hook: $(man3_stamp)
	$(MKDIR_P) $(DESTDIR)$(mandir)/man3
	for page in %D%/man3/*.3; do $(INSTALL_DATA) $$page $(DESTDIR)$(mandir)/man3/ || exit 1; done
uninstall-hook:
	for page in %D%/man3/*.3; do rm -f $(DESTDIR)$(mandir)/man3/`basename $$page`; done
clean-local:
	rm -rf %D%/man3 $(man3_stamp)

# The book, by packages that nothing else needs: each target says which are missing. HTML: python3-sphinx and python3-myst-parser;
# PDF: weasyprint too.
book_tools = %D%/book/book.py %D%/book/check.py %D%/book/commands.py %D%/book/markdown.py %D%/book/pictures.py \
  %D%/book/details.txt %D%/book/operators.txt %D%/book/reference.py %D%/book/search.py %D%/book/questions.txt %D%/book/conf.py %D%/book/book.css
EXTRA_DIST += $(book_tools)
make_book = MPIEXEC='$(MPIEXEC)' python3 $(srcdir)/%D%/book/book.py $(srcdir) .
book: renga $(man3_stamp)
	$(make_book) html
book-pdf: renga $(man3_stamp)
	$(make_book) pdf
clean-local: clean-book
clean-book:
	rm -rf %D%/book
.PHONY: book book-pdf clean-book
