# Planned steps, message by message, in SimGrid. It has an MPI of its own, so the program is linked without the library.
if SIMGRID
check_PROGRAMS += %D%/referee
%C%_referee_SOURCES = %D%/referee.c
%C%_referee_CPPFLAGS = $(SIMGRID_CFLAGS)
%C%_referee_LDADD = $(SIMGRID_LIBS)
endif
tests += %D%/simgrid.sh
EXTRA_DIST += %D%/simgrid.sh %D%/referee.c
