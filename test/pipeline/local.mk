check_PROGRAMS += %D%/again %D%/chunks %D%/far %D%/forecast %D%/gradient %D%/groups %D%/halves %D%/kinds %D%/leaf %D%/layouts %D%/named %D%/networks %D%/outcome %D%/place \
  %D%/refuse %D%/replicas %D%/settings %D%/stall %D%/together
TESTS += %D%/again %D%/chunks %D%/far %D%/forecast %D%/gradient %D%/groups %D%/halves %D%/kinds %D%/leaf %D%/layouts %D%/named %D%/networks %D%/outcome %D%/place \
  %D%/refuse %D%/replicas %D%/settings %D%/stall.sh %D%/together
noinst_HEADERS += %D%/run.h
EXTRA_DIST += %D%/stall.sh
%C%_chunks_SOURCES = %D%/chunks.c
%C%_far_SOURCES = %D%/far.c
%C%_forecast_SOURCES = %D%/forecast.c
%C%_gradient_SOURCES = %D%/gradient.c
%C%_groups_SOURCES = %D%/groups.c
%C%_halves_SOURCES = %D%/halves.c
%C%_kinds_SOURCES = %D%/kinds.c test/onnx/write.c test/onnx/write.h
%C%_leaf_SOURCES = %D%/leaf.c
%C%_layouts_SOURCES = %D%/layouts.c
%C%_networks_SOURCES = %D%/networks.c
%C%_outcome_SOURCES = %D%/outcome.c
%C%_place_SOURCES = %D%/place.c
%C%_refuse_SOURCES = %D%/refuse.c
%C%_replicas_SOURCES = %D%/replicas.c
%C%_stall_SOURCES = %D%/stall.c
%C%_settings_SOURCES = %D%/settings.c
%C%_together_SOURCES = %D%/together.c
%C%_again_SOURCES = %D%/again.c
%C%_named_SOURCES = %D%/named.c
check_PROGRAMS += %D%/samplelosses
TESTS += %D%/samplelosses
%C%_samplelosses_SOURCES = %D%/samplelosses.c
