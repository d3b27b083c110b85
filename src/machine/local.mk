librenga_la_SOURCES += %D%/machine.c %D%/file.c %D%/flows.c %D%/islands.c %D%/kinds.c %D%/seconds.c %D%/view.c
noinst_HEADERS += %D%/machineimpl.h include/renga/private/links.h include/renga/private/flows.h

# The one file that knows folders, so that nothing else depends on them.
noinst_LTLIBRARIES += libmachinefolders.la
libmachinefolders_la_SOURCES = %D%/folders.c
libmachinefolders_la_CPPFLAGS = $(AM_CPPFLAGS) -DRENGA_MACHINES_INSTALLED='"$(datadir)/renga/machines"' \
  -DRENGA_MACHINES_SOURCE='"$(abs_top_srcdir)/share/renga/machines"'
librenga_la_LIBADD += libmachinefolders.la

machinesdir = $(datadir)/renga/machines
dist_machines_DATA = share/renga/machines/mdx-gpu.opts share/renga/machines/mdx-cpu.opts \
  share/renga/machines/v100.opts share/renga/machines/dgx-a100.opts share/renga/machines/selene.opts \
  share/renga/machines/h100.opts share/renga/machines/h200.opts share/renga/machines/stampede2.opts share/renga/machines/laptop.opts \
  share/renga/machines/xeon-8480.opts
