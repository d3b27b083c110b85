bin_PROGRAMS += renga
renga_SOURCES = %D%/main.c %D%/network.c %D%/monitor.c %D%/sinks.c %D%/row.c %D%/rows.c %D%/tensorboard.c %D%/summary.c %D%/terminal.c %D%/output.c %D%/timelimit.c %D%/leaving.c \
  %D%/train.c %D%/timeline.c %D%/hostmemory.c %D%/checkpoint.c %D%/initial.c %D%/samples.c %D%/forward.c %D%/eval.c %D%/predict.c %D%/export.c %D%/origin.c %D%/info.c %D%/devices.c %D%/parameters.c %D%/plan.c %D%/simulate.c %D%/nodes.c %D%/options.c %D%/budget.c %D%/curve.c %D%/profile.c \
  %D%/data.c %D%/generate.c %D%/textmodel.c %D%/prompts.c %D%/sampler.c %D%/lines.c %D%/tokenrows.c %D%/encoder.c %D%/choices.c %D%/accuracy.c %D%/reading.c %D%/share.c %D%/files.c %D%/hiding.c %D%/unused.c %D%/placement.c
renga_SOURCES += %D%/plantable.c %D%/sweep.c %D%/faster.c
renga_LDADD = $(OUTSIDE_LDADD) $(JSON_C_LIBS)
noinst_HEADERS += %D%/app.h %D%/exitcode.h %D%/hostmemory.h %D%/monitor.h %D%/http.h %D%/server.h %D%/simulate.h %D%/status.h %D%/points.h %D%/report.h %D%/text.h %D%/view.h

renga_SOURCES += %D%/ranks.c %D%/http.c %D%/server.c %D%/request.c %D%/listen.c %D%/status.c %D%/points.c %D%/report.c
renga_SOURCES += %D%/supervisor/supervisor.c %D%/supervisor/options.c %D%/supervisor/start.c %D%/supervisor/launch.c %D%/supervisor/hosts.c %D%/supervisor/sweep.c %D%/supervisor/ask.c %D%/supervisor/signs.c %D%/supervisor/signals.c %D%/supervisor/slurm.c %D%/supervisor/events.c
noinst_HEADERS += %D%/supervisor/supervisor.h
renga_SOURCES += %D%/watch.c %D%/view.c %D%/runfile.c %D%/runpage.c %D%/fetch.c %D%/token.c

# Private names of the library are hidden from programs.
renga_SOURCES += src/sys/open.c src/sys/optionname.c

# Scripts that users copy: of Slurm, of PBS, and of machines without either.
clusterdir = $(datadir)/renga/cluster
dist_cluster_DATA = share/renga/cluster/renga.sbatch share/renga/cluster/renga.pbs
dist_cluster_SCRIPTS = share/renga/cluster/renga-hosts

# The page of -monitor http, line by line as strings of C: compilers need take no string that is longer.
nodist_renga_SOURCES = %D%/watchpage.h
BUILT_SOURCES += %D%/watchpage.h
CLEANFILES += %D%/watchpage.h
EXTRA_DIST += share/renga/watch.html
renga_CPPFLAGS = $(AM_CPPFLAGS) -I%D%
%D%/watchpage.h: share/renga/watch.html
	$(AM_V_GEN)$(MKDIR_P) %D% && sed -e 's/[\\"]/\\&/g' -e 's/^/"/' -e 's/$$/\\n",/' $< >$@
read_watchpage = %D%/renga-http.$(OBJEXT)
$(read_watchpage): %D%/watchpage.h
