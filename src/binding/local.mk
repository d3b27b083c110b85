# Languages: the Python package, the module of Fortran; and what bash completes.
EXTRA_DIST += %D%/python/pyproject.toml %D%/python/setup.py %D%/python/MANIFEST.in %D%/python/renga/__init__.py \
  %D%/python/renga/_batch.py %D%/python/renga/_data.py %D%/python/renga/_export.py %D%/python/renga/_graph.py %D%/python/renga/_hollow.py %D%/python/renga/_library.py %D%/python/renga/_optimizer.py %D%/python/renga/_pipeline.py \
  %D%/python/renga/_plan.py %D%/python/renga/_pretrained.py %D%/python/renga/_prototypes.py %D%/python/renga/_rewrite.py %D%/python/renga/_runtime.py %D%/python/renga/_safetensors.py %D%/python/renga/_torch.py %D%/python/renga/_trainer.py %D%/python/renga/_trial.py %D%/python/renga/_version.py %D%/python/renga/_watch.py \
  %D%/python/renga/py.typed

EXTRA_DIST += %D%/conda/meta.yaml
EXTRA_DIST += %D%/fortran/renga.f90.in %D%/fortran/generate.py %D%/fortran/renga-fortran.pc.in
if FORTRAN
fortran_archive = %D%/fortran/librenga_fortran.a
fortran_module = %D%/fortran/renga.mod
FORTRAN_FLAGS = -std=f2008 -O2 -g -fPIC -Wall -Wextra
fortran_source = %D%/fortran/renga.f90
$(fortran_source): %D%/fortran/renga.f90.in %D%/fortran/generate.py $(include_HEADERS)
	$(AM_V_GEN)$(MKDIR_P) %D%/fortran && cd $(srcdir) && \
	  $(PYTHON3) %D%/fortran/generate.py %D%/fortran/renga.f90.in include/renga[a-z]*.h >$(abs_top_builddir)/$@.new && \
	  mv $(abs_top_builddir)/$@.new $(abs_top_builddir)/$@
$(fortran_archive): $(fortran_source)
	$(AM_V_GEN)rm -f $@ && \
	  $(MPIFC) $(FORTRAN_FLAGS) $(FCFLAGS) -J %D%/fortran -c -o %D%/fortran/renga_module.o $(fortran_source) && \
	  $(AR) cr $@ %D%/fortran/renga_module.o
$(fortran_module): $(fortran_archive)
	@:
fortranlibdir = $(libdir)
fortranlib_DATA = $(fortran_archive)
fortranmoduledir = $(includedir)/renga-fortran
fortranmodule_DATA = $(fortran_module)
pkgconfig_DATA += renga-fortran.pc
CLEANFILES += $(fortran_source) $(fortran_archive) $(fortran_module) %D%/fortran/renga_module.o
endif

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/shell/renga
